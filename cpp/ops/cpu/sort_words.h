// Sorts 32-bit words by partitions and networks of AVX-512 vectors. Call only if the processor has
// AVX-512 (has_avx512).
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// Sorts in place. `room` is memory of the same size as `words`.
void sort_words(uint32_t* words, uint32_t* room, int64_t count, int threads);

}  // namespace mxlite::cpu
