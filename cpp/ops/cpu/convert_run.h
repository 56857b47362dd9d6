// Converts contiguous elements. The compiler vectorizes the loop for bfloat16; for float16 it does
// not use the instruction that converts eight elements at once.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "cpp/core/half.h"

namespace mxlite::cpu {

template <class To, class From>
void convert_run(const From* from, To* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

inline void convert_run(const float16* from, float* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < count; ++i) to[i] = from[i];
}

inline void convert_run(const float* from, float16* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < count; ++i) to[i] = float16(from[i]);
}

}  // namespace mxlite::cpu
