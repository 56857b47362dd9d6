// Sorts 32-bit words by partitions and networks of AVX-512 vectors. Call only if the processor has
// AVX-512 (has_avx512).
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// `room` has the size of `words`, in which the result is.
void sort_words(uint32_t* words, uint32_t* room, int64_t count, int threads);

}  // namespace mxlite::cpu
