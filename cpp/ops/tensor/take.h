// Operators that select rows or elements by index along one axis, and their gradients.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct TensorSpec;

// Throws unless the dtype can hold indices.
void check_index_dtype(const char* op, const TensorSpec& index);

// Treatment of an index outside the axis.
enum class IndexMode : uint8_t { kClip, kWrap, kRaise };
MX_ENUM_NAMES(IndexMode, {"clip", E::kClip}, {"wrap", E::kWrap}, {"raise", E::kRaise})
// pick does not support `raise`.
enum class PickMode : uint8_t { kClip, kWrap };
MX_ENUM_NAMES(PickMode, {"clip", E::kClip}, {"wrap", E::kWrap})

struct TakeParams {
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
  MX_FIELDS(TakeParams, MX_FIELD(axis, "Axis that slices are taken from."),
            MX_FIELD(mode,
                     "How indices outside of the axis are treated: clip to its ends, wrap around, "
                     "or raise an error."))
};

struct TakeBackwardParams {
  Shape shape;
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
  MX_FIELDS(TakeBackwardParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_FIELD(axis, "As in take."),
            MX_FIELD(mode, "As in take, which has checked the indices."))
};

struct PickParams {
  int axis = -1;
  bool keepdims = false;
  PickMode mode = PickMode::kClip;
  MX_FIELDS(
      PickParams, MX_FIELD(axis, "Axis that elements are picked from."),
      MX_FIELD(keepdims, "Whether the axis stays, with length 1."),
      MX_FIELD(mode,
               "How indices outside of the axis are treated: clip to its ends, or wrap around."))
};

struct PickBackwardParams {
  Shape shape;
  int axis = -1;
  PickMode mode = PickMode::kClip;
  MX_FIELDS(PickBackwardParams, MX_REQUIRED_FIELD(shape, "Shape of the output."),
            MX_FIELD(axis, "As in pick."), MX_FIELD(mode, "As in pick."))
};

}  // namespace mxlite
