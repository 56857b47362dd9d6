// A register of floats, loaded from float32, bfloat16 or float16. Included once per instruction
// set, so everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "cpp/core/half.h"

#ifndef MX_WIDE
#error "define MX_WIDE: 1 with registers of 64 bytes, 0 with 32 bytes"
#endif

namespace mxlite::cpu {
namespace {

constexpr int64_t kVectorLanes = MX_WIDE ? 16 : 8;
using Floats [[gnu::vector_size(kVectorLanes * 4)]] = float;
using Words [[gnu::vector_size(kVectorLanes * 4)]] = uint32_t;
using Halves [[gnu::vector_size(kVectorLanes * 2)]] = uint16_t;

#define MX_LANES_INLINE inline __attribute__((always_inline))

MX_LANES_INLINE Floats load(const float* from) {
  Floats v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
MX_LANES_INLINE Floats load(const bfloat16* from) {
  Halves half;
  std::memcpy(&half, from, sizeof half);
  return reinterpret_cast<Floats>(__builtin_convertvector(half, Words) << 16);
}

#if MX_WIDE
constexpr __mmask16 kAllLanes = 0xffff;  // GCC warns about intrinsics without a mask
MX_LANES_INLINE Floats load(const float16* from) {
  __m256i half;
  std::memcpy(&half, from, sizeof half);
  return reinterpret_cast<Floats>(_mm512_maskz_cvtph_ps(kAllLanes, half));
}
MX_LANES_INLINE void store(float16* to, Floats v) {
  const __m256i half =
      _mm512_maskz_cvtps_ph(kAllLanes, reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(&to->bits, &half, sizeof half);
}
#else
MX_LANES_INLINE Floats load(const float16* from) {
  __m128i half;
  std::memcpy(&half, from, sizeof half);
  return reinterpret_cast<Floats>(_mm256_cvtph_ps(half));
}
MX_LANES_INLINE void store(float16* to, Floats v) {
  const __m128i half = _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(&to->bits, &half, sizeof half);
}
#endif

MX_LANES_INLINE void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }
// Rounds like bfloat16's constructor.
MX_LANES_INLINE void store(bfloat16* to, Floats v) {
  const Words bits = reinterpret_cast<Words>(v);
  const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Words quiet_nan = (bits >> 16) | 0x40;
  const Words chosen = v != v ? quiet_nan : rounded;
  const Halves half = __builtin_convertvector(chosen, Halves);
  std::memcpy(&to->bits, &half, sizeof half);
}

MX_LANES_INLINE float sum_lanes(Floats v) {
  float lanes[kVectorLanes];
  std::memcpy(lanes, &v, sizeof v);
  for (int64_t half = kVectorLanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

}  // namespace
}  // namespace mxlite::cpu
