// Copies elements between any two strided layouts of one shape. Transposes, slices, concatenations,
// tiles and their gradients are expressed as such copies.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// One axis: its length and its strides in elements. Strides may be negative; a source stride of 0
// repeats elements. Destinations must not overlap.
struct CopyAxis {
  int64_t size = 1, dst = 0, src = 0;
};

// Has room for two axes per dimension, as tile and repeat need.
class CopyAxes {
 public:
  void push_back(const CopyAxis& axis) { axes_[count_++] = axis; }
  void resize(int count) { count_ = count; }  // count may only decrease
  void erase(int i) {
    std::copy(axes_ + i + 1, axes_ + count_, axes_ + i);
    --count_;
  }
  int size() const { return count_; }
  CopyAxis& operator[](int i) { return axes_[i]; }
  const CopyAxis& operator[](int i) const { return axes_[i]; }
  const CopyAxis* begin() const { return axes_; }
  const CopyAxis* end() const { return axes_ + count_; }

 private:
  CopyAxis axes_[2 * Shape::kMaxNdim + 2];
  int count_ = 0;
};

// Copies elements. dst and src point to the elements whose indices are all 0.
void strided_copy(size_t element_bytes, CopyAxes axes, void* dst, const void* src);
// Like the function above, with the axes of `shape`.
void strided_copy(size_t element_bytes, const Shape& shape, void* dst, const Strides& dst_strides,
                  const void* src, const Strides& src_strides);
// Copies contiguous memory; uses all threads for large blocks. Does nothing if dst == src.
void contiguous_copy(void* dst, const void* src, size_t bytes);
void zero_fill(void* dst, size_t bytes);

// Returns a pointer to element `offset` of tensor memory.
inline void* at(void* data, int64_t offset, size_t element_bytes) {
  return static_cast<char*>(data) + offset * static_cast<int64_t>(element_bytes);
}
inline const void* at(const void* data, int64_t offset, size_t element_bytes) {
  return static_cast<const char*>(data) + offset * static_cast<int64_t>(element_bytes);
}

// Calls fn(T{}) with an unsigned integer type of this size, for copies, which do not depend on the
// dtype.
decltype(auto) dispatch_size(size_t element_bytes, auto&& fn) {
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

}  // namespace mxlite::cpu
