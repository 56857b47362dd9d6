// Copies elements between any two strided layouts of one shape. Transposes, slices, concatenations,
// tiles and their gradients are expressed as such copies.
#pragma once
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/walk.h"

namespace mxlite::cuda {

// Writes array 0 and reads array 1 of the walk, whose finish() has been called. Steps may be
// negative; a source step of 0 repeats elements. Destinations must not overlap.
void strided_copy(KernelContext& ctx, size_t element_bytes, const Walk<2>& walk, void* dst,
                  const void* src);
// Like the function above, with the axes of one shape.
void strided_copy(KernelContext& ctx, size_t element_bytes, const Shape& shape, void* dst,
                  const Strides& dst_strides, const void* src, const Strides& src_strides);

// Copies and converts. Both arrays may have any strides.
void convert_copy(KernelContext& ctx, const TensorRef& from, const TensorRef& to);

// Like convert_copy for pairs of arrays; one launch converts many pairs.
void convert_copies(KernelContext& ctx, Inputs from, Outputs to);

inline void* at(void* data, int64_t offset, size_t element_bytes) {
  return static_cast<char*>(data) + offset * static_cast<int64_t>(element_bytes);
}
inline const void* at(const void* data, int64_t offset, size_t element_bytes) {
  return static_cast<const char*>(data) + offset * static_cast<int64_t>(element_bytes);
}

// Calls fn(T{}) with an unsigned integer type of this size, for copies, which do not depend on the
// dtype.
void dispatch_size(size_t element_bytes, auto&& fn) {
  switch (element_bytes) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

}  // namespace mxlite::cuda
