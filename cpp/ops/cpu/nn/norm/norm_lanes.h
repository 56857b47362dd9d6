// Registers with float32 and bfloat16 data in which some lanes may lie beyond the last channel.
// Included once per instruction set.
#pragma once
#include <cstring>
#include <type_traits>

#include "cpp/core/dtype.h"
#include "cpp/ops/cpu/nn/registers.h"

namespace mxlite::cpu {
namespace {

#if MX_WIDE
using NormLanes = __mmask16;
constexpr NormLanes kAll = 0xffff;  // GCC warns about intrinsics without a mask

inline NormLanes lanes(int64_t left) {
  return left >= kLane ? NormLanes{0xffff} : static_cast<NormLanes>((1u << left) - 1);
}

inline Vec load(const float* p, NormLanes m) { return _mm512_maskz_loadu_ps(m, p); }
inline Vec load(const bfloat16* p, NormLanes m) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(
      kAll, _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(m, p)), 16));
}
inline void store(float* p, NormLanes m, Vec v) { _mm512_mask_storeu_ps(p, m, v); }
// Returns the nearest bfloat16, ties to even, in the upper halves. A NaN stays NaN.
inline __m512i rounded_bits(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const NormLanes nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_maskz_srli_epi32(kAll, _mm512_mask_blend_epi32(nan, rounded, quiet), 16);
}
inline void store(bfloat16* p, NormLanes m, Vec v) {
  _mm256_mask_storeu_epi16(p, m, _mm512_maskz_cvtepi32_epi16(kAll, rounded_bits(v)));
}
// Sets the lanes outside of the mask to 0.
inline Vec keep(NormLanes m, Vec v) { return _mm512_maskz_mov_ps(m, v); }
// Loads the data where x > 0 and 0 elsewhere.
template <class T>
inline Vec load_where_positive(const T* p, NormLanes m, Vec x) {
  return load(p, _mm512_mask_cmp_ps_mask(m, x, zero(), _CMP_GT_OQ));
}
// Rounds values as if they were stored as T and loaded again.
template <class T>
inline Vec rounded(Vec v) {
  if constexpr (std::is_same_v<T, float>) return v;
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, rounded_bits(v), 16));
}
#else
// Stores with a mask are slow on AMD processors, so whole registers are stored without a mask.
struct NormLanes {
  int64_t count;
  bool all() const { return count >= kLane; }
};
inline NormLanes lanes(int64_t left) { return {left}; }
inline __m256i mask_of(NormLanes m) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(m.count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline Vec load(const float* p, NormLanes m) {
  return m.all() ? load(p) : _mm256_maskload_ps(p, mask_of(m));
}
inline Vec load(const bfloat16* p, NormLanes m) {
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, p, m.all() ? sizeof(bits) : static_cast<size_t>(m.count) * sizeof(*p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline void store(float* p, NormLanes m, Vec v) {
  m.all() ? store(p, v) : _mm256_maskstore_ps(p, mask_of(m), v);
}
// Returns the nearest bfloat16, ties to even, in the upper halves. A NaN stays NaN.
inline __m256i rounded_bits(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
inline void store(bfloat16* p, NormLanes m, Vec v) {
  const __m256i wide = rounded_bits(v);
  const __m128i bits =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  std::memcpy(static_cast<void*>(p), &bits,
              m.all() ? sizeof(bits) : static_cast<size_t>(m.count) * sizeof(*p));
}
// Sets the lanes outside of the mask to 0.
inline Vec keep(NormLanes m, Vec v) {
  return m.all() ? v : _mm256_and_ps(v, _mm256_castsi256_ps(mask_of(m)));
}
// Loads the data where x > 0 and 0 elsewhere.
template <class T>
inline Vec load_where_positive(const T* p, NormLanes m, Vec x) {
  return _mm256_and_ps(load(p, m), _mm256_cmp_ps(x, zero(), _CMP_GT_OQ));
}
// Rounds values as if they were stored as T and loaded again.
template <class T>
inline Vec rounded(Vec v) {
  if constexpr (std::is_same_v<T, float>) return v;
  return _mm256_castsi256_ps(_mm256_slli_epi32(rounded_bits(v), 16));
}
#endif

}  // namespace
}  // namespace mxlite::cpu
