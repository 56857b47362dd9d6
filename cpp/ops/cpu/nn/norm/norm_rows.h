// The loops of BatchNorm over rows of contiguous channels, one table per instruction set. `rows`
// rows of `width` elements are adjacent in memory. Arrays with a value per channel are float32 and
// padded to whole registers.
#pragma once
#include <cstdint>

#include "cpp/core/half.h"
#include "cpp/ops/cpu/nn/norm/norm.h"

namespace mxlite::cpu {

// The arrays of functions are indexed by NormEnd.
template <class T>
struct NormRows {
  // sum += x - pivot, square += (x - pivot)^2
  void (*add_moments)(const T* data, int64_t rows, int64_t width, const float* pivot, float* sum,
                      float* square);
  void (*normalize[kNormEnds])(const T* data, const T* added, T* output, int64_t rows,
                               int64_t width, const float* mean, const float* scale,
                               const float* shift);
  // sum += grad, product += grad * (data - mean); added_grad = grad
  void (*add_grads[kNormEnds])(const T* grad, const T* data, const T* output, T* added_grad,
                               int64_t rows, int64_t width, const float* mean, const float* scale,
                               const float* shift, float* sum, float* product);
  // data_grad = scale * (grad - offset - (data - mean) * slope)
  void (*apply_grads[kNormEnds])(const T* grad, const T* data, T* data_grad, int64_t rows,
                                 int64_t width, const float* mean, const float* scale,
                                 const float* shift, const float* offset, const float* slope);
};

// T is float or bfloat16.
namespace avx2 {
template <class T>
const NormRows<T>& norm_rows();
}
namespace avx512 {
template <class T>
const NormRows<T>& norm_rows();
}

}  // namespace mxlite::cpu
