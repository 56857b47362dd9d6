// Dropout. The hidden second output is the mask: one byte per element (1: kept), with size 1 along
// `axes`. The mask is written only in training mode with p > 0.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class DropoutMode : uint8_t { kAlways, kTraining };
MX_ENUM_NAMES(DropoutMode, {"always", E::kAlways}, {"training", E::kTraining})

// Also the params of `_dropout_backward(output_grad, mask)`.
struct DropoutParams {
  float p = 0.5f;
  DropoutMode mode = DropoutMode::kTraining;
  Shape axes;
  std::optional<bool> cudnn_off;
  MX_FIELDS(
      DropoutParams, MX_FIELD(p, "Probability that an element is set to 0.").between(0, 1),
      MX_FIELD(mode, "When elements are dropped: only in training, or also in inference."),
      MX_FIELD(
          axes,
          "Axes along which elements are dropped together; () drops each element independently."),
      MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."))
  bool is_active(bool training) const {
    return p > 0 && (training || mode == DropoutMode::kAlways);
  }
  float scale() const { return p < 1 ? 1 / (1 - p) : 0; }
};

}  // namespace mxlite
