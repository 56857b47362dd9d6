// Moves short runs of elements between storage dtypes and the few types that kernels compute in, so
// that a function is instantiated for five types instead of thirteen.
#pragma once
#include "cpp/core/shape.h"
#include "cpp/ops/number.h"

namespace mxlite::pointwise {

enum class Compute : uint8_t { kFloat, kDouble, kInt32, kInt64, kUInt64 };
constexpr int kNumComputes = 5;
constexpr int64_t kBlock = 512;  // elements per block; three blocks of double fit into the L1 cache

inline size_t compute_size(Compute c) {
  return c == Compute::kFloat || c == Compute::kInt32 ? 4 : 8;
}
// Returns a type that is exact for the dtype. Small integers wrap when they are stored.
Compute compute_for_arithmetic(DType dtype);
// Returns a floating type; integers are computed in double.
Compute compute_for_math(DType dtype);
// Returns the type of sums; integers are summed in 64 bits.
Compute compute_for_sum(DType dtype);
// Returns whether arrays of this dtype contain values of type c.
bool stored_as(DType dtype, Compute c);

using LoadFn = void (*)(const void* src, int64_t stride, int64_t n, void* out);
using StoreFn = void (*)(const void* in, int64_t n, void* dst);
LoadFn load_fn(DType from, Compute to);
StoreFn store_fn(Compute from, DType to);

// Converts a scalar to the dtype and writes it as type c. As in MXNet 1.x, 1.5 becomes 1 for
// integers.
void load_scalar(Number value, DType dtype, Compute c, void* out);

}  // namespace mxlite::pointwise
