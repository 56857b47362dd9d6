// Parameters and axis rules of reductions, shared by schemas and kernels.
#pragma once
#include <array>

#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ReduceParams {
  std::optional<Shape> axis;
  bool keepdims = false;
  bool exclude = false;
  MX_FIELDS(ReduceParams, MX_FIELD(axis, "Axes that are reduced; None or () means all."),
            MX_FIELD(keepdims, "Whether reduced axes stay, with length 1."),
            MX_FIELD(exclude, "Whether to reduce all axes except those in axis."))
};

// Parameters of numpy mode's reductions, whose results may have 0 dimensions.
struct NumpyReduceParams {
  std::optional<Shape> axis;
  std::optional<DType> dtype;
  bool keepdims = false;
  MX_FIELDS(NumpyReduceParams, MX_FIELD(axis, "Axes that are reduced; None means all, () none."),
            MX_FIELD(dtype,
                     "Element type of the result; None means that of data, but 64 bits for sums "
                     "and products of integers."),
            MX_FIELD(keepdims, "Whether reduced axes stay, with length 1."))
};

struct NormParams {
  int ord = 2;
  std::optional<Shape> axis;
  std::optional<DType> out_dtype;
  bool keepdims = false;
  MX_FIELDS(NormParams,
            MX_FIELD(ord,
                     "Order of the norm: 1 is the sum of absolute values, 2 the Euclidean norm.")
                .between(1, 2),
            MX_FIELD(axis, "Axes that are reduced; None means all."),
            MX_FIELD(out_dtype, "Element type of the result; None means that of data."),
            MX_FIELD(keepdims, "Whether reduced axes stay, with length 1."))
};

struct MomentsParams {
  std::optional<Shape> axes;
  bool keepdims = false;
  MX_FIELDS(MomentsParams, MX_FIELD(axes, "Axes that are reduced; None means all."),
            MX_FIELD(keepdims, "Whether reduced axes stay, with length 1."))
};

struct ArgParams {
  std::optional<int64_t> axis;
  bool keepdims = false;
  MX_FIELDS(ArgParams, MX_FIELD(axis, "Axis that is searched; None searches the flattened array."),
            MX_FIELD(keepdims, "Whether the searched axis stays, with length 1."))
};

struct CumsumParams {
  std::optional<int64_t> axis;
  std::optional<DType> dtype;
  MX_FIELDS(CumsumParams,
            MX_FIELD(axis, "Axis along which elements are added; None flattens the array first."),
            MX_FIELD(dtype, "Element type of the result; None means that of data."))
};

// reduced[i] is true if axis i is reduced.
using AxisMask = std::array<bool, Shape::kMaxNdim>;

// Throws a dtype error for bool, because a sum of type bool could not count true elements.
void check_summable(const char* op, DType dtype);

AxisMask reduced_axes(const char* op, const std::optional<Shape>& axis, bool exclude, int ndim);
// Returns the axes that a call with these parameters reduces.
AxisMask reduced_axes(const char* op, const ReduceParams& p, int ndim);
AxisMask reduced_axes(const char* op, const NumpyReduceParams& p, int ndim);
// Returns the shape in which reduced axes have length 1.
Shape kept_shape(const Shape& shape, const AxisMask& reduced);
// Returns the shape without the reduced axes.
Shape shape_without(const Shape& shape, const AxisMask& reduced);
// Returns the shape of the result in mx.nd. As in 1.x, it is (1,) if no axes remain.
Shape result_shape(const Shape& shape, const AxisMask& reduced, bool keepdims);
// Returns how many elements are combined into one result, or -1 if one of their dimensions is
// unknown.
int64_t reduced_size(const Shape& shape, const AxisMask& reduced);

}  // namespace mxlite
