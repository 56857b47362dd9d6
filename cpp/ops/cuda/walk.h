// Positions of elements when arrays of any strides are traversed together.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cpp/base/host_device.h"
#include "cpp/core/shape.h"

namespace mxlite::cuda {

// Maximum number of axes: two per dimension, which tile needs, and two spare ones.
constexpr int kMaxAxes = 2 * Shape::kMaxNdim + 2;

// Division of numbers below 2^31 by a multiplication (Granlund and Montgomery, 1994).
struct Divisor {
  uint32_t value = 1, magic = 0, shift = 0;
  Divisor() = default;
  explicit Divisor(int64_t n) : value(static_cast<uint32_t>(n)) {
    while (shift < 32 && (uint64_t{1} << shift) < value) ++shift;
    magic =
        static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - value)) / value + 1);
  }
  MX_HOST_DEVICE uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * magic >> 32);
    return (high + n) >> shift;
  }
};

// Divides indices of type I by a size. Indices of 32 bits are divided by a multiplication.
template <class I>
struct Division {
  I value = 1;
  Divisor by;
  Division() = default;
  explicit Division(int64_t size) : value(static_cast<I>(size)) {
    if constexpr (sizeof(I) == sizeof(uint32_t)) by = Divisor(size > 0 ? size : 1);
  }
  MX_HOST_DEVICE I quotient(I n) const {
    if constexpr (sizeof(I) == sizeof(uint32_t))
      return static_cast<I>(by.quotient(static_cast<uint32_t>(n)));
    else
      return n / value;
  }
  // Divides n and returns the remainder.
  MX_HOST_DEVICE I split(I& n) const {
    const I whole = n;
    n = quotient(n);
    return whole - n * value;
  }
};

// Maps an element's index to offsets in K arrays, which have at most `Most` axes. Add axes from the
// outermost to the innermost; adjacent axes are merged where possible.
template <int K, int Most = kMaxAxes>
class Walk {
 public:
  void add(int64_t size, std::initializer_list<int64_t> strides) {
    if (size == 1) return;
    total_ *= size;
    const int64_t* step = strides.begin();
    const int last = ndim_ - 1;
    bool joins = last >= 0;
    for (int k = 0; k < K && joins; ++k) joins = stride_[k][last] == step[k] * size;
    if (joins) {
      size_[last] *= size;
      for (int k = 0; k < K; ++k) stride_[k][last] = step[k];
      return;
    }
    size_[ndim_] = size;
    for (int k = 0; k < K; ++k) stride_[k][ndim_] = step[k];
    ++ndim_;
  }
  // Must be called after the last axis has been added.
  void finish() {
    wide_ = total_ >= int64_t{1} << 31;
    if (wide_ || total_ == 0) return;
    for (int i = 0; i < ndim_; ++i) by_[i] = Divisor(size_[i]);
  }
  MX_HOST_DEVICE int64_t total() const { return total_; }
  int ndim() const { return ndim_; }
  int64_t size(int axis) const { return size_[axis]; }
  int64_t stride(int k, int axis) const { return stride_[k][axis]; }
  // Returns whether the elements of every array are adjacent and in order.
  bool contiguous() const {
    for (int k = 0; k < K; ++k)
      if (ndim_ > 1 || (ndim_ == 1 && stride_[k][0] != 1)) return false;
    return true;
  }

  // Computes the offsets of element i of the shape in each array.
  MX_HOST_DEVICE void offsets(int64_t i, int64_t (&at)[K]) const {
    for (int k = 0; k < K; ++k) at[k] = 0;
    for (int a = ndim_ - 1; a >= 0; --a) {
      int64_t rest;
      if (wide_) {
        const int64_t q = i / size_[a];
        rest = i - q * size_[a];
        i = q;
      } else {
        const uint32_t n = static_cast<uint32_t>(i), q = by_[a].quotient(n);
        rest = n - q * by_[a].value;
        i = q;
      }
      for (int k = 0; k < K; ++k) at[k] += rest * stride_[k][a];
    }
  }

 private:
  int ndim_ = 0;
  bool wide_ = false;
  int64_t total_ = 1;
  int64_t size_[Most] = {};
  Divisor by_[Most];
  int64_t stride_[K][Most] = {};
};

// Returns the strides of an array of `shape` broadcast to the larger shape `to` by NumPy's rules.
inline Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to) {
  Strides result = Strides::filled(to.ndim(), 0);
  const int lead = to.ndim() - shape.ndim();
  for (int i = 0; i < shape.ndim(); ++i)
    if (shape[i] != 1) result[lead + i] = strides[i];
  return result;
}

}  // namespace mxlite::cuda
