// Arithmetic of dimensions in shape rules. While a symbol's shapes are inferred, a rule may get
// shapes with a known number of dimensions, of which some are unknown (-1). The rule must then
// reject only shapes that cannot match, and return -1 for sizes that it cannot determine.
#pragma once
#include <cstdint>

#include "cpp/base/checked_math.h"
#include "cpp/core/shape.h"

namespace mxlite {

inline constexpr int64_t kUnknownDim = -1;

constexpr bool is_known(int64_t dim) { return dim >= 0; }

// Returns whether the dimensions are equal or one of them is unknown.
constexpr bool may_equal(int64_t a, int64_t b) { return a == b || !is_known(a) || !is_known(b); }
inline bool may_equal(const Shape& a, const Shape& b) {
  bool fits = a.ndim() == b.ndim();
  for (int i = 0; fits && i < a.ndim(); ++i) fits = may_equal(a[i], b[i]);
  return fits;
}
// Returns whether `dim` is a multiple of `factor` or unknown.
constexpr bool may_be_multiple(int64_t dim, int64_t factor) {
  return !is_known(dim) || dim % factor == 0;
}
// Return whether `dim` is at least (at most) `bound`, or one of them is unknown.
constexpr bool may_be_at_least(int64_t dim, int64_t bound) {
  return !is_known(dim) || !is_known(bound) || dim >= bound;
}
constexpr bool may_be_at_most(int64_t dim, int64_t bound) { return may_be_at_least(bound, dim); }

// Combines two dimensions or shapes that must be equal: takes the known value of each dimension.
constexpr int64_t merged(int64_t a, int64_t b) { return is_known(a) ? a : b; }
inline Shape merged(Shape shape, const Shape& other) {
  for (int i = 0; i < shape.ndim(); ++i) shape[i] = merged(shape[i], other[i]);
  return shape;
}

// Returns fn(dims...), or -1 if one of the dimensions is unknown.
template <class F, class... Dims>
int64_t if_known(F&& fn, Dims... dims) {
  return (is_known(dims) && ...) ? fn(dims...) : kUnknownDim;
}
// `count` may be negative.
inline int64_t add_to_dim(int64_t dim, int64_t count) {
  return is_known(dim) ? checked_add(dim, count) : kUnknownDim;
}
inline int64_t add_dims(int64_t a, int64_t b) {
  return is_known(a) && is_known(b) ? checked_add(a, b) : kUnknownDim;
}
// 0 times an unknown dimension is 0.
inline int64_t multiply_dims(int64_t a, int64_t b) {
  if (is_known(a) && is_known(b)) return checked_mul(a, b);
  return a == 0 || b == 0 ? 0 : kUnknownDim;
}
constexpr int64_t divide_dim(int64_t dim, int64_t divisor) {
  return is_known(dim) ? dim / divisor : kUnknownDim;
}

// Returns the product of dimensions [first, last): -1 if one is unknown, except that 0 times
// anything is 0. Throws a shape error if the product does not fit into 64 bits.
inline int64_t product_of_dims(const Shape& shape, int first, int last) {
  bool known = true;
  for (int i = first; i < last; ++i) {
    if (shape[i] == 0) return 0;
    known &= is_known(shape[i]);
  }
  return known ? shape.product(first, last) : kUnknownDim;
}
inline int64_t count_elements(const Shape& shape) {
  return product_of_dims(shape, 0, shape.ndim());
}

}  // namespace mxlite
