// Parameters and axis rules of reductions, shared by schemas and kernels.
#pragma once
#include <array>

#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ReduceParams {
  std::optional<Shape> axis;
  bool keepdims = false;
  bool exclude = false;
  static constexpr auto fields() {
    return std::tuple(
        field("axis", &ReduceParams::axis, "Axes that disappear; None or () means all."),
        field("keepdims", &ReduceParams::keepdims, "Keep reduced axes with length 1."),
        field("exclude", &ReduceParams::exclude, "Reduce all axes but those in axis."));
  }
};

struct NormParams {
  int ord = 2;
  std::optional<Shape> axis;
  std::optional<DType> out_dtype;
  bool keepdims = false;
  static constexpr auto fields() {
    return std::tuple(
        field("ord", &NormParams::ord, "1: sum of absolute values; 2: Euclidean.").between(1, 2),
        field("axis", &NormParams::axis, "Axes that disappear; None means all."),
        field("out_dtype", &NormParams::out_dtype, "None keeps data's dtype."),
        field("keepdims", &NormParams::keepdims, "Keep reduced axes with length 1."));
  }
};

struct MomentsParams {
  std::optional<Shape> axes;
  bool keepdims = false;
  static constexpr auto fields() {
    return std::tuple(
        field("axes", &MomentsParams::axes, "Axes that disappear; None means all."),
        field("keepdims", &MomentsParams::keepdims, "Keep reduced axes with length 1."));
  }
};

struct ArgParams {
  std::optional<int64_t> axis;
  bool keepdims = false;
  static constexpr auto fields() {
    return std::tuple(
        field("axis", &ArgParams::axis, "Axis to search; None searches the flattened array."),
        field("keepdims", &ArgParams::keepdims, "Keep the searched axis with length 1."));
  }
};

struct CumsumParams {
  std::optional<int64_t> axis;
  std::optional<DType> dtype;
  static constexpr auto fields() {
    return std::tuple(
        field("axis", &CumsumParams::axis, "Axis to add along; None flattens data first."),
        field("dtype", &CumsumParams::dtype, "Type of the result; None keeps data's."));
  }
};

// reduced[i]: does axis i disappear?
using AxisMask = std::array<bool, Shape::kMaxNdim>;

// Refuses bool: a sum or product of bools in their own dtype counts nothing.
void check_summable(const char* op, DType dtype);

AxisMask reduced_axes(const char* op, const std::optional<Shape>& axis, bool exclude, int ndim);
// Reduced axes with length 1.
Shape kept_shape(const Shape& shape, const AxisMask& reduced);
// A result without axes has shape (1,), as in 1.x.
Shape result_shape(const Shape& shape, const AxisMask& reduced, bool keepdims);
// Returns how many elements are combined into one; -1 if one of their dimensions is unknown.
int64_t reduced_size(const Shape& shape, const AxisMask& reduced);

}  // namespace mxlite
