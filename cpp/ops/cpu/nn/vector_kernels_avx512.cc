// Loops with AVX-512 vectors. Call only if the processor has AVX-512.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/nn/gelu_forms.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_WIDE 1
// The loops need the declarations of the random words.
// clang-format off
#include "cpp/ops/random/philox_rounds_avx512.h"
#include "cpp/ops/cpu/nn/vector_kernels_loops.h"
// clang-format on

namespace mxlite::cpu::avx512 {

template <class T>
const VectorKernels<T>& vector_kernels() {
  return kVectorKernels<T>;
}
template const VectorKernels<float>& vector_kernels<float>();
template const VectorKernels<bfloat16>& vector_kernels<bfloat16>();
template const VectorKernels<float16>& vector_kernels<float16>();

void draw_mask(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold, uint8_t* mask) {
  draw_words(seed, first, counters, threshold, mask);
}

}  // namespace mxlite::cpu::avx512
