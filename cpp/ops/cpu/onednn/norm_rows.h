// The loops of BatchNorm over rows of contiguous channels. `rows` rows of `width` elements follow
// each other in memory; what belongs to a channel is float32 and padded to whole registers.
#pragma once
#include <immintrin.h>

#include "cpp/core/dtype.h"
#include "cpp/ops/cpu/onednn/norm.h"

namespace mxlite::onednn::norm {

constexpr int64_t kLane = 16;  // floats of a register

inline float to_float(float x) { return x; }
inline float to_float(bfloat16 x) { return static_cast<float>(x); }

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")

using Mask = __mmask16;
constexpr Mask kAll = 0xffff;  // GCC warns of the forms without a mask

inline Mask lanes(int64_t left) {
  return left >= kLane ? Mask{0xffff} : static_cast<Mask>((1u << left) - 1);
}

inline __m512 load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
inline __m512 load(const bfloat16* p, Mask m) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(
      kAll, _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(m, p)), 16));
}
inline void store(float* p, Mask m, __m512 v) { _mm512_mask_storeu_ps(p, m, v); }
// Upper halves of the result: the nearest bfloat16, ties to even; a NaN stays one.
inline __m512i rounded_bits(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd =
      _mm512_and_si512(_mm512_maskz_srli_epi32(kAll, bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const Mask nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_maskz_srli_epi32(kAll, _mm512_mask_blend_epi32(nan, rounded, quiet), 16);
}
inline void store(bfloat16* p, Mask m, __m512 v) {
  _mm256_mask_storeu_epi16(p, m, _mm512_maskz_cvtepi32_epi16(kAll, rounded_bits(v)));
}
// Rounds like a store and a load.
template <class T>
inline __m512 rounded(__m512 v) {
  if constexpr (std::is_same_v<T, float>) return v;
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, rounded_bits(v), 16));
}
inline __m512 channel(const float* values, int64_t c) { return _mm512_loadu_ps(values + c); }

// fn(first element of the row, channel, lanes) for groups of kTogether rows at once, so that what
// belongs to a channel is loaded and stored once for all of them.
template <class F>
inline void for_vectors(int64_t rows, int64_t width, F&& fn) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; c += kLane) fn(r * width + c, c, lanes(width - c));
}

// sum += x - pivot, square += (x - pivot)^2
template <class T>
void add_moments(const T* data, int64_t rows, int64_t width, const float* pivot, float* sum,
                 float* square) {
  constexpr int64_t kTogether = 4;
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t count = rows - r < kTogether ? rows - r : kTogether;
    const T* const first = data + r * width;
    for (int64_t c = 0; c < width; c += kLane) {
      const Mask m = lanes(width - c);
      const __m512 middle = channel(pivot, c);
      __m512 s = channel(sum, c), q = channel(square, c);
      for (int64_t i = 0; i < count; ++i) {
        const __m512 d = _mm512_maskz_sub_ps(m, load(first + i * width + c, m), middle);
        s = _mm512_add_ps(s, d);
        q = _mm512_fmadd_ps(d, d, q);
      }
      _mm512_storeu_ps(sum + c, s);
      _mm512_storeu_ps(square + c, q);
    }
  }
}

template <class T, NormEnd kEnd>
void normalize(const T* data, const T* added, T* output, int64_t rows, int64_t width,
               const float* mean, const float* scale, const float* shift) {
  const __m512 zero = _mm512_setzero_ps();
  for_vectors(rows, width, [&](int64_t at, int64_t c, Mask m) {
    __m512 v = _mm512_fmadd_ps(_mm512_sub_ps(load(data + at, m), channel(mean, c)),
                               channel(scale, c), channel(shift, c));
    // Rounded as by an addition of its own.
    if constexpr (kEnd == NormEnd::kAddRelu) v = _mm512_add_ps(rounded<T>(v), load(added + at, m));
    if constexpr (kEnd != NormEnd::kPlain) v = _mm512_maskz_max_ps(kAll, zero, v);  // NaN stays
    store(output + at, m, v);
  });
}

// The output's gradient where relu passed values.
template <class T, NormEnd kEnd>
inline __m512 passed_grad(const T* grad, const T* output, int64_t at, Mask m, __m512 centered,
                          __m512 scale, __m512 shift) {
  const __m512 zero = _mm512_setzero_ps();
  if constexpr (kEnd == NormEnd::kRelu)
    m = _mm512_mask_cmp_ps_mask(m, _mm512_fmadd_ps(centered, scale, shift), zero, _CMP_GT_OQ);
  if constexpr (kEnd == NormEnd::kAddRelu)
    m = _mm512_mask_cmp_ps_mask(m, load(output + at, m), zero, _CMP_GT_OQ);
  return load(grad + at, m);
}

// sum += grad, product += grad * (data - mean); added_grad = grad
template <class T, NormEnd kEnd>
void add_grads(const T* grad, const T* data, const T* output, T* added_grad, int64_t rows,
               int64_t width, const float* mean, const float* scale, const float* shift, float* sum,
               float* product) {
  constexpr int64_t kTogether = 4;
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t count = rows - r < kTogether ? rows - r : kTogether;
    for (int64_t c = 0; c < width; c += kLane) {
      const Mask m = lanes(width - c);
      const __m512 middle = channel(mean, c), factor = channel(scale, c),
                   offset = channel(shift, c);
      __m512 s = channel(sum, c), q = channel(product, c);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = (r + i) * width + c;
        const __m512 centered = _mm512_maskz_sub_ps(m, load(data + at, m), middle);
        const __m512 g = passed_grad<T, kEnd>(grad, output, at, m, centered, factor, offset);
        if constexpr (kEnd == NormEnd::kAddRelu) store(added_grad + at, m, g);
        s = _mm512_add_ps(s, g);
        q = _mm512_fmadd_ps(g, centered, q);
      }
      _mm512_storeu_ps(sum + c, s);
      _mm512_storeu_ps(product + c, q);
    }
  }
}

// data_grad = scale * (grad - offset - (data - mean) * slope)
template <class T, NormEnd kEnd>
void apply_grads(const T* grad, const T* data, T* data_grad, int64_t rows, int64_t width,
                 const float* mean, const float* scale, const float* shift, const float* offset,
                 const float* slope) {
  constexpr NormEnd kFrom = kEnd == NormEnd::kRelu ? kEnd : NormEnd::kPlain;
  for_vectors(rows, width, [&](int64_t at, int64_t c, Mask m) {
    const __m512 centered = _mm512_sub_ps(load(data + at, m), channel(mean, c));
    const __m512 factor = channel(scale, c);
    const __m512 g = passed_grad<T, kFrom>(grad, static_cast<const T*>(nullptr), at, m, centered,
                                           factor, channel(shift, c));
    const __m512 rest =
        _mm512_fnmadd_ps(centered, channel(slope, c), _mm512_sub_ps(g, channel(offset, c)));
    store(data_grad + at, m, _mm512_mul_ps(factor, rest));
  });
}

#pragma GCC pop_options

}  // namespace mxlite::onednn::norm
