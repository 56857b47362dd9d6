// Loops over contiguous float32 and 16-bit floats with the processor's widest vectors (AVX-512 or
// AVX2). The loops run in the calling thread; callers divide the work among threads.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cpp/core/half.h"

namespace mxlite::cpu {

// LayerNorm of contiguous rows, each of which has the same gamma and beta.
template <class T>
struct LayerNormRows {
  const T *data, *gamma, *beta;
  T *output, *mean, *std;  // output and data may be the same memory
  int64_t length;
  double eps;
};

// Operands of the backward pass of LayerNorm.
template <class T>
struct LayerNormGradRows {
  const T *grad, *data, *gamma;
  T* data_grad;
  int64_t length;
  double eps;
};

// T is float, bfloat16 or float16. Two arrays of a call must be identical or not overlap.
template <class T>
struct VectorKernels {
  using Map = void (*)(const T* x, T* y, int64_t n);
  using MapGrad = void (*)(const T* grad, const T* x, T* y, int64_t n);
  // Writes the result of Map to y and the result of MapGrad to x_grad.
  using MapBoth = void (*)(const T* grad, const T* x, T* x_grad, T* y, int64_t n);
  Map gelu, gelu_tanh;
  MapGrad gelu_backward, gelu_tanh_backward;
  MapBoth gelu_and_backward, gelu_tanh_and_backward;
  // y = mask ? x * scale : 0
  void (*apply_mask)(const T* x, const uint8_t* mask, float scale, T* y, int64_t n);
  // y = (mask ? x * scale : 0) + added, rounded after the product and after the sum.
  void (*apply_mask_and_add)(const T* x, const uint8_t* mask, float scale, const T* added, T* y,
                             int64_t n);
  // Normalizes the rows [first, last).
  void (*normalize)(const LayerNormRows<T>& rows, int64_t first, int64_t last);
  // Writes the gradients of the rows [first, last), and adds the contributions of these rows to
  // gamma_grad and beta_grad, `length` sums each. Callers pass a few rows at a time, because long
  // sums lose precision.
  void (*normalize_backward)(const LayerNormGradRows<T>& rows, int64_t first, int64_t last,
                             float* gamma_grad, float* beta_grad);
};

template <class T>
constexpr bool kHasVectorKernels =
    std::is_same_v<T, float> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;
template <class T>
const VectorKernels<T>& vector_kernels();

// For i < counters, sets mask[4 * i + k] to 1 if the upper 24 bits of word k of random counter
// first + i are at least `threshold`, else to 0.
void draw_mask(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold, uint8_t* mask);

// One namespace per instruction set.
namespace avx2 {
template <class T>
const VectorKernels<T>& vector_kernels();
void draw_mask(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold, uint8_t* mask);
}  // namespace avx2
namespace avx512 {
template <class T>
const VectorKernels<T>& vector_kernels();
void draw_mask(uint64_t seed, uint64_t first, int64_t counters, uint32_t threshold, uint8_t* mask);
}  // namespace avx512

}  // namespace mxlite::cpu
