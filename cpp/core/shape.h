// Shape and strides: up to kMaxNdim numbers without heap memory. During shape inference, a
// dimension of -1 is unknown, and ndim is -1 if the whole shape is unknown.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "cpp/base/checked_math.h"
#include "cpp/base/error.h"
#include "cpp/core/dtype.h"

namespace mxlite {

class Shape {
 public:
  static constexpr int kMaxNdim = 12;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) {
    check_ndim(dims.size());
    std::copy(dims.begin(), dims.end(), dims_);
    ndim_ = static_cast<int>(dims.size());
  }
  Shape(const Shape& o) : ndim_(o.ndim_) { std::copy_n(o.dims_, std::max(ndim_, 0), dims_); }
  Shape& operator=(const Shape& o) {
    ndim_ = o.ndim_;
    std::copy_n(o.dims_, std::max(ndim_, 0), dims_);
    return *this;
  }
  static Shape unknown() {
    Shape s;
    s.ndim_ = -1;
    return s;
  }
  static Shape filled(int ndim, int64_t value) {
    Shape s;
    for (int i = 0; i < ndim; ++i) s.push_back(value);
    return s;
  }

  int ndim() const { return ndim_; }
  bool is_known() const { return ndim_ >= 0 && std::find(begin(), end(), -1) == end(); }
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + std::max(ndim_, 0); }
  int64_t* begin() { return dims_; }
  int64_t* end() { return dims_ + std::max(ndim_, 0); }
  int64_t back() const { return dims_[ndim_ - 1]; }
  std::span<const int64_t> span() const { return {begin(), end()}; }
  void push_back(int64_t dim) {
    check_ndim(static_cast<size_t>(ndim_) + 1);
    dims_[ndim_++] = dim;
  }
  void insert(int axis, int64_t dim) {
    push_back(dim);
    std::rotate(dims_ + axis, dims_ + ndim_ - 1, dims_ + ndim_);
  }
  void erase(int axis) {
    std::copy(dims_ + axis + 1, dims_ + ndim_, dims_ + axis);
    --ndim_;
  }

  // Returns the number of elements, which is 1 if ndim is 0. Throws a shape error if the number
  // does not fit into 64 bits.
  int64_t size() const { return product(0, ndim_); }
  // Returns the product of the dimensions first to last - 1. Throws a shape error if the product
  // does not fit into 64 bits. If a dimension is 0, returns 0 even if other products would
  // overflow.
  int64_t product(int first, int last) const {
    int64_t n = 1;
    bool overflow = false;
    for (int i = first; i < last; ++i) {
      if (dims_[i] == 0) return 0;
      overflow |= __builtin_mul_overflow(n, dims_[i], &n);
    }
    if (overflow) [[unlikely]]
      throw_too_large();
    return n;
  }
  bool operator==(const Shape& o) const {
    return ndim_ == o.ndim_ && std::equal(begin(), end(), o.begin());
  }

 private:
  static void check_ndim(size_t ndim) {
    MX_CHECK_SHAPE(ndim <= kMaxNdim, "a shape must have at most ", kMaxNdim, " dimensions, got ",
                   ndim);
  }
  [[noreturn]] void throw_too_large() const;

  int ndim_ = 0;
  int64_t dims_[kMaxNdim];
};

using Strides = Shape;  // in elements, not bytes

std::ostream& operator<<(std::ostream& out, const Shape& shape);  // prints like a Python tuple

Strides contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Strides& strides);
// Returns the axis in [0, ndim). Throws an index error that names op, axis and ndim.
int normalize_axis(const char* op, int64_t axis, int ndim);
// Returns the shape by NumPy's broadcasting rules. Throws a shape error that names op and both
// shapes.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

struct TensorSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool operator==(const TensorSpec&) const = default;
  // Throws a shape error if the number of bytes does not fit into 63 bits.
  size_t bytes() const {
    return static_cast<size_t>(checked_mul(shape.size(), static_cast<int64_t>(dtype_size(dtype))));
  }
};
std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);  // prints for example
                                                                      // float32(2, 3)

}  // namespace mxlite
