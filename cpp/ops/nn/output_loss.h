// Output layers with a built-in loss: their gradients do not depend on the output's gradient.
#pragma once
#include <tuple>

#include "cpp/ops/nn/softmax_output.h"

namespace mxlite {

// Params of LinearRegressionOutput, LogisticRegressionOutput and MAERegressionOutput.
struct RegressionOutputParams {
  float grad_scale = 1.0f;
  static constexpr auto fields() {
    return std::tuple(
        field("grad_scale", &RegressionOutputParams::grad_scale, "Factor of the gradient."));
  }
};

// Also the params of `_svm_output_backward(data, label)`.
struct SVMOutputParams {
  float margin = 1.0f, regularization_coefficient = 1.0f;
  bool use_linear = false;
  static constexpr auto fields() {
    using P = SVMOutputParams;
    return std::tuple(field("margin", &P::margin, "Distance that scores should keep from 0."),
                      field("regularization_coefficient", &P::regularization_coefficient,
                            "Factor of the gradient."),
                      field("use_linear", &P::use_linear, "L1 hinge loss; otherwise its square."));
  }
};

// Also the params of `_make_loss_backward(data)`.
struct MakeLossParams {
  float grad_scale = 1.0f, valid_thresh = 0.0f;
  LossNormalization normalization = LossNormalization::kNull;
  static constexpr auto fields() {
    using P = MakeLossParams;
    return std::tuple(
        field("grad_scale", &P::grad_scale, "The gradient."),
        field("valid_thresh", &P::valid_thresh, "Elements above it count as valid."),
        field("normalization", &P::normalization,
              "Divides the gradient by nothing, the batch size or the number of valid elements."));
  }
};

}  // namespace mxlite
