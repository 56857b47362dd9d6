// Dropout. The hidden second output is the mask: one byte per element (1: kept), with size 1 along
// `axes`. It is written only in training mode with p > 0.
#pragma once
#include <array>
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class DropoutMode : uint8_t { kAlways, kTraining };
template <>
struct EnumNames<DropoutMode> {
  static constexpr std::array<std::pair<const char*, DropoutMode>, 2> names = {
      {{"always", DropoutMode::kAlways}, {"training", DropoutMode::kTraining}}};
};

// Also the params of `_dropout_backward(output_grad, mask)`.
struct DropoutParams {
  float p = 0.5f;
  DropoutMode mode = DropoutMode::kTraining;
  Shape axes;
  std::optional<bool> cudnn_off;
  static constexpr auto fields() {
    using P = DropoutParams;
    return std::tuple(
        field("p", &P::p, "Fraction that is set to zero.").between(0, 1),
        field("mode", &P::mode, "When to drop: in training only, or always."),
        field("axes", &P::axes, "Axes along which the mask is the same."),
        field("cudnn_off", &P::cudnn_off, "Accepted for compatibility, without effect."));
  }
  bool is_active(bool training) const {
    return p > 0 && (training || mode == DropoutMode::kAlways);
  }
  float scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};

}  // namespace mxlite
