// Pad and its gradient.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "cpp/ops/number.h"

namespace mxlite {

enum class PadMode : uint8_t { kConstant, kEdge, kReflect };
template <>
struct EnumNames<PadMode> {
  static constexpr std::array<std::pair<const char*, PadMode>, 3> names = {
      {{"constant", PadMode::kConstant}, {"edge", PadMode::kEdge}, {"reflect", PadMode::kReflect}}};
};

struct PadParams {
  PadMode mode = PadMode::kConstant;
  OptionalInts pad_width;  // two numbers per dimension, which may be too many for a Shape
  Number constant_value = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("mode", &PadParams::mode, "What the new elements are."),
        required_field("pad_width", &PadParams::pad_width,
                       "Elements added before and after, for every axis: (b1, a1, b2, a2, ...).")
            .between(0, kMaxSize),
        field("constant_value", &PadParams::constant_value, "Value of mode constant."));
  }
  int64_t before(int axis) const { return *pad_width[static_cast<size_t>(2 * axis)]; }
  int64_t after(int axis) const { return *pad_width[static_cast<size_t>(2 * axis + 1)]; }
};

}  // namespace mxlite
