// philox_rounds of philox_rounds.h for AVX-512, with 16 counters per register. Include this header
// only after a target pragma for AVX-512.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace mxlite::random {
namespace {

// Multiplies 16 words by the lower half of each element of `factor`: writes the upper and the lower
// halves of the products.
__attribute__((always_inline)) inline void multiply_words(__m512i words, __m512i factor,
                                                          __m512i& high, __m512i& low) {
  constexpr __mmask16 kEven = 0x5555, kOdd = 0xaaaa;
  constexpr __mmask8 kAll = 0xff;
  const __m512i even = _mm512_maskz_mul_epu32(kAll, words, factor);
  const __m512i odd =
      _mm512_maskz_mul_epu32(kAll, _mm512_maskz_srli_epi64(kAll, words, 32), factor);
  high = _mm512_castps_si512(
      _mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), kEven, _mm512_castsi512_ps(even)));
  low = _mm512_castps_si512(
      _mm512_mask_moveldup_ps(_mm512_castsi512_ps(even), kOdd, _mm512_castsi512_ps(odd)));
}

// Replaces n counters of four words by random words; words[i][j] is word i of counter j.
template <int64_t n>
inline void philox_rounds(uint64_t seed, uint32_t (*words)[n]) {
  constexpr int64_t kLanes = 16;
  static_assert(n % kLanes == 0);
  constexpr int kXor = 0x96;  // truth table of the exclusive or of three operands
  const __m512i factor0 = _mm512_set1_epi64(0xD2511F53), factor1 = _mm512_set1_epi64(0xCD9E8D57);
  for (int64_t j = 0; j < n; j += kLanes) {
    __m512i c0 = _mm512_loadu_si512(words[0] + j), c1 = _mm512_loadu_si512(words[1] + j);
    __m512i c2 = _mm512_loadu_si512(words[2] + j), c3 = _mm512_loadu_si512(words[3] + j);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      __m512i high0, low0, high1, low1;
      multiply_words(c0, factor0, high0, low0);
      multiply_words(c2, factor1, high1, low1);
      c0 = _mm512_ternarylogic_epi32(high1, c1, _mm512_set1_epi32(static_cast<int>(k0)), kXor);
      c2 = _mm512_ternarylogic_epi32(high0, c3, _mm512_set1_epi32(static_cast<int>(k1)), kXor);
      c1 = low1;
      c3 = low0;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    _mm512_storeu_si512(words[0] + j, c0);
    _mm512_storeu_si512(words[1] + j, c1);
    _mm512_storeu_si512(words[2] + j, c2);
    _mm512_storeu_si512(words[3] + j, c3);
  }
}

}  // namespace
}  // namespace mxlite::random
