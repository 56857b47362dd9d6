// Philox4x32-10 (core/random.h) on many counters at once, in loops that vectorize. The function has
// internal linkage, because files compiled for different instruction sets include it. Files for
// AVX-512 include philox_rounds_avx512.h instead.
#pragma once
#include <cstdint>

namespace mxlite::random {
namespace {

// Replaces n counters of four words by random words; words[i][j] is word i of counter j.
template <int64_t n>
inline void philox_rounds(uint64_t seed, uint32_t (*words)[n]) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  uint32_t *c0 = words[0], *c1 = words[1], *c2 = words[2], *c3 = words[3];
  for (int round = 0; round < 10; ++round) {
    for (int64_t j = 0; j < n; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[j], p1 = uint64_t{0xCD9E8D57} * c2[j];
      c0[j] = static_cast<uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c2[j] = static_cast<uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c1[j] = static_cast<uint32_t>(p1);
      c3[j] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

}  // namespace
}  // namespace mxlite::random
