// Operators that select rows or elements by index along one axis, and their gradients.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "cpp/ops/attr.h"

namespace mxlite {

// Treatment of an index outside the axis.
enum class IndexMode : uint8_t { kClip, kWrap, kRaise };
template <>
struct EnumNames<IndexMode> {
  static constexpr std::array<std::pair<const char*, IndexMode>, 3> names = {
      {{"clip", IndexMode::kClip}, {"wrap", IndexMode::kWrap}, {"raise", IndexMode::kRaise}}};
};
// pick does not support `raise`.
enum class PickMode : uint8_t { kClip, kWrap };
template <>
struct EnumNames<PickMode> {
  static constexpr std::array<std::pair<const char*, PickMode>, 2> names = {
      {{"clip", PickMode::kClip}, {"wrap", PickMode::kWrap}}};
};

struct TakeParams {
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
  static constexpr auto fields() {
    return std::tuple(field("axis", &TakeParams::axis, "Axis along which is taken."),
                      field("mode", &TakeParams::mode,
                            "Indices outside: clip to the ends, wrap around, or raise an error."));
  }
};

struct TakeBackwardParams {
  Shape shape;
  int axis = 0;
  IndexMode mode = IndexMode::kClip;
  static constexpr auto fields() {
    return std::tuple(
        required_field("shape", &TakeBackwardParams::shape, "Shape of the output."),
        field("axis", &TakeBackwardParams::axis, "As in take."),
        field("mode", &TakeBackwardParams::mode, "As in take, which has checked the indices."));
  }
};

struct PickParams {
  int axis = -1;
  bool keepdims = false;
  PickMode mode = PickMode::kClip;
  static constexpr auto fields() {
    return std::tuple(
        field("axis", &PickParams::axis, "Axis along which is picked."),
        field("keepdims", &PickParams::keepdims, "Keep the axis with length 1."),
        field("mode", &PickParams::mode, "Indices outside: clip to the ends or wrap around."));
  }
};

struct PickBackwardParams {
  Shape shape;
  int axis = -1;
  PickMode mode = PickMode::kClip;
  static constexpr auto fields() {
    return std::tuple(required_field("shape", &PickBackwardParams::shape, "Shape of the output."),
                      field("axis", &PickBackwardParams::axis, "As in pick."),
                      field("mode", &PickBackwardParams::mode, "As in pick."));
  }
};

}  // namespace mxlite
