// Runs element-wise functions over arrays of any shape, stride and dtype. The functions are loops
// over contiguous runs of one compute type.
#pragma once
#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/kernel.h"

namespace mxlite::pointwise {

using UnaryFn = void (*)(const void* x, void* y, int64_t n, const void* args);
struct UnaryTable {
  UnaryFn fn[kNumComputes] = {};
};

// Says which operand of a binary function, if any, is a single value instead of a run.
enum class Form : uint8_t { kBoth, kScalarLeft, kScalarRight };
using BinaryFn = void (*)(const void* a, const void* b, void* out, int64_t n, Form form);
struct BinaryTable {
  BinaryFn fn[kNumComputes] = {};
};

// y = f(x). `args` are given in compute type c. y is contiguous; x may have any strides and may be
// y.
void run_unary(const UnaryTable& table, Compute c, const TensorRef& x, const TensorRef& y,
               const void* args = nullptr);
// out = f(a, b) with NumPy's broadcasting. out is contiguous and may be an input of the same shape.
void run_binary(const BinaryTable& table, Compute c, const TensorRef& a, const TensorRef& b,
                const TensorRef& out);
// The scalar is first converted to scalar_dtype.
void run_scalar(const BinaryTable& table, Compute c, const TensorRef& x, Number scalar,
                DType scalar_dtype, bool scalar_left, const TensorRef& out);

// Returns runs of an array, broadcast to `shape`, as contiguous values of type c. If neither
// conversion nor gaps require a copy, returns the array's own memory.
class BlockReader {
 public:
  BlockReader(const TensorRef& array, const Shape& shape, Compute c);
  bool direct() const { return direct_; }
  bool single() const { return single_; }  // whether one value is broadcast to all elements
  // Returns elements first .. first + n of the flattened shape. `buffer` has room for n values; n
  // must be at most kBlock unless the array is read directly. A single value is written once.
  const void* read(int64_t first, int64_t n, void* buffer) const;

 private:
  const std::byte* data_;
  Shape shape_;
  Strides strides_;
  size_t width_;
  int64_t compute_width_;
  LoadFn load_;
  bool direct_, single_;
};

}  // namespace mxlite::pointwise
