// Limits of the sizes of arrays.
#pragma once
#include "cpp/core/shape.h"

namespace mxlite {

constexpr int64_t kWidestElement = 8;  // in bytes

// Returns whether the array has at least one and fewer than 2^60 elements. This fast check accepts
// common sizes.
inline bool has_common_size(const TensorSpec& spec) {
  int64_t bytes = kWidestElement;
  bool common = true;
  for (const int64_t dim : spec.shape)
    common &= dim > 0 && !__builtin_mul_overflow(bytes, dim, &bytes);
  return common;
}

// Slow path of check_array_size, for empty or huge arrays.
void check_empty_or_huge(const TensorSpec& spec);

// Throws a shape error for negative dimensions and for empty arrays that NumPy also refuses. Throws
// an out-of-memory error if the number of bytes does not fit into 63 bits.
inline void check_array_size(const TensorSpec& spec) {
  if (!has_common_size(spec)) [[unlikely]]
    check_empty_or_huge(spec);
}

}  // namespace mxlite
