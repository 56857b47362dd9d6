// Slicing and writing into slices.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/number.h"

namespace mxlite {

struct SliceParams {
  OptionalInts begin, end, step;
  static constexpr auto fields() {
    return std::tuple(
        required_field("begin", &SliceParams::begin, "First index per axis; None: from the start."),
        required_field("end", &SliceParams::end, "End index per axis; None: to the end."),
        field("step", &SliceParams::step, "Step per axis; negative walks backwards."));
  }
};

struct SliceAssignScalarParams {
  Number scalar = 0;
  OptionalInts begin, end, step;
  static constexpr auto fields() {
    return std::tuple(
        field("scalar", &SliceAssignScalarParams::scalar, "Value that is written."),
        required_field("begin", &SliceAssignScalarParams::begin,
                       "First index per axis; None: from the start."),
        required_field("end", &SliceAssignScalarParams::end,
                       "End index per axis; None: to the end."),
        field("step", &SliceAssignScalarParams::step, "Step per axis; negative walks backwards."));
  }
};

struct SliceAxisParams {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end;
  static constexpr auto fields() {
    return std::tuple(required_field("axis", &SliceAxisParams::axis, "Axis that is sliced."),
                      required_field("begin", &SliceAxisParams::begin, "First index."),
                      required_field("end", &SliceAxisParams::end, "End index; None: to the end."));
  }
};

struct SliceLikeParams {
  Shape axes;
  static constexpr auto fields() {
    return std::tuple(field("axes", &SliceLikeParams::axes,
                            "Axes cut to shape_like's length; empty: all of them."));
  }
};

struct SliceBackwardParams {
  Shape shape, begin, step;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &SliceBackwardParams::shape, "Shape of the output."),
        required_field("begin", &SliceBackwardParams::begin, "Position of data's first element."),
        required_field("step", &SliceBackwardParams::step, "Distance of its elements per axis."));
  }
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
