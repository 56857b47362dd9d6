// Moves elements between any two strided layouts of one shape: transposes, slices, concatenations,
// tiles and their gradients are descriptions of such a move.
#pragma once
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/walk.h"

namespace mxlite::cuda {

// Array 0 is written, array 1 read; the walk has been finished. Steps may be negative; a step of 0
// in the source repeats. Destinations must not overlap.
void strided_copy(KernelContext& ctx, size_t element_bytes, const Walk<2>& walk, void* dst,
                  const void* src);
// The same with the axes of one shape.
void strided_copy(KernelContext& ctx, size_t element_bytes, const Shape& shape, void* dst,
                  const Strides& dst_strides, const void* src, const Strides& src_strides);

// Copies and converts; both arrays may have any strides.
void convert_copy(KernelContext& ctx, const TensorRef& from, const TensorRef& to);

inline void* at(void* data, int64_t offset, size_t element_bytes) {
  return static_cast<char*>(data) + offset * static_cast<int64_t>(element_bytes);
}
inline const void* at(const void* data, int64_t offset, size_t element_bytes) {
  return static_cast<const char*>(data) + offset * static_cast<int64_t>(element_bytes);
}

// Calls fn(T{}) with an unsigned integer of that size: moving elements needs no dtype.
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
