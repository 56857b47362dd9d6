// Slicing and writing into slices.
#pragma once
#include <optional>

#include "cpp/ops/number.h"

namespace mxlite {

struct SliceParams {
  OptionalInts begin, end, step;
  MX_FIELDS(SliceParams,
            MX_REQUIRED_FIELD(
                begin,
                "First index along each axis; None: the start, or the end if step is negative."),
            MX_REQUIRED_FIELD(end,
                              "Index after the last one along each axis; None: the end, or the "
                              "start if step is negative."),
            MX_FIELD(step, "Step along each axis, negative for reversed order; () and None are 1."))
};

struct SliceAssignScalarParams : SliceParams {
  Number scalar = 0;
  MX_FIELDS(SliceAssignScalarParams, MX_FIELD(scalar, "Value that is written."),
            SliceParams::fields())
};

struct SliceAxisParams {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end;
  MX_FIELDS(SliceAxisParams, MX_REQUIRED_FIELD(axis, "Axis that is sliced."),
            MX_REQUIRED_FIELD(begin, "First index."),
            MX_REQUIRED_FIELD(end, "Index after the last one; None: the end."))
};

struct SliceLikeParams {
  Shape axes;
  MX_FIELDS(SliceLikeParams,
            MX_FIELD(axes, "Axes that are cut to the lengths of shape_like; () is all axes."))
};

struct SliceBackwardParams {
  Shape shape, begin, step;
  MX_FIELDS(SliceBackwardParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_REQUIRED_FIELD(begin, "Position of data's first element."),
            MX_REQUIRED_FIELD(step, "Distance of its elements per axis."))
};

// A resolved slice: element i along axis a is at index begin[a] + i * step[a].
struct SliceRegion {
  Shape shape, begin, step;
};

// Resolve slices by NumPy's rules: bounds outside the array are clipped.
SliceRegion resolve_slice(const char* op, const OptionalInts& begin, const OptionalInts& end,
                          const OptionalInts& step, const Shape& shape);
SliceRegion resolve_slice(const SliceAxisParams& p, const Shape& shape);

}  // namespace mxlite
