// Loops with AVX2 vectors, which every supported processor has, and selection of the instruction
// set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/nn/gelu_forms.h"
#define MX_WIDE 0
// The loops need the declarations of the random words.
// clang-format off
#include "cpp/ops/random/philox_rounds.h"
#include "cpp/ops/cpu/nn/vector_kernels_loops.h"
// clang-format on

namespace mxlite::cpu {
namespace avx2 {

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

}  // namespace avx2

template <class T>
const VectorKernels<T>& vector_kernels() {
  return has_avx512() ? avx512::vector_kernels<T>() : avx2::vector_kernels<T>();
}
template const VectorKernels<float>& vector_kernels<float>();
template const VectorKernels<bfloat16>& vector_kernels<bfloat16>();
template const VectorKernels<float16>& vector_kernels<float16>();

void draw_mask(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold, uint8_t* mask) {
  (has_avx512() ? avx512::draw_mask : avx2::draw_mask)(seed, first, counters, threshold, mask);
}

}  // namespace mxlite::cpu
