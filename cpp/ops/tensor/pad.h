// Pad and its gradient.
#pragma once
#include "cpp/ops/number.h"

namespace mxlite {

enum class PadMode : uint8_t { kConstant, kEdge, kReflect };
MX_ENUM_NAMES(PadMode, {"constant", E::kConstant}, {"edge", E::kEdge}, {"reflect", E::kReflect})

struct PadParams {
  PadMode mode = PadMode::kConstant;
  OptionalInts pad_width;  // two numbers per dimension, which may be too many for a Shape
  Number constant_value = 0;
  MX_FIELDS(PadParams,
            MX_REQUIRED_FIELD(
                mode,
                "Values of the new elements: constant: constant_value; edge: the nearest element "
                "of data; reflect: elements mirrored at the first and last element."),
            MX_REQUIRED_FIELD(pad_width,
                              "Number of elements added before and after each axis: (before_0, "
                              "after_0, before_1, after_1, ...).")
                .between(0, kMaxSize),
            MX_FIELD(constant_value, "Value of new elements in mode 'constant'."))
  int64_t before(int axis) const { return *pad_width[static_cast<size_t>(2 * axis)]; }
  int64_t after(int axis) const { return *pad_width[static_cast<size_t>(2 * axis + 1)]; }
};

}  // namespace mxlite
