// Output layers with a built-in loss: their gradients do not depend on the output's gradient.
#pragma once
#include "cpp/ops/nn/softmax_output.h"

namespace mxlite {

// Params of LinearRegressionOutput, LogisticRegressionOutput and MAERegressionOutput.
struct RegressionOutputParams {
  float grad_scale = 1.0f;
  MX_FIELDS(RegressionOutputParams, MX_FIELD(grad_scale, "Factor of the gradient."))
};

// Also the params of `_svm_output_backward(data, label)`.
struct SVMOutputParams {
  float margin = 1.0f, regularization_coefficient = 1.0f;
  bool use_linear = false;
  MX_FIELDS(
      SVMOutputParams,
      MX_FIELD(
          margin,
          "Scores of a label's class below margin and other scores above -margin are penalized."),
      MX_FIELD(regularization_coefficient, "Factor of the gradient."),
      MX_FIELD(
          use_linear,
          "Whether the loss is linear in the violation of margin (L1); False squares it (L2)."))
};

// Also the params of `_make_loss_backward(data)`.
struct MakeLossParams {
  float grad_scale = 1.0f, valid_thresh = 0.0f;
  LossNormalization normalization = LossNormalization::kNull;
  MX_FIELDS(MakeLossParams, MX_FIELD(grad_scale, "Gradient of each element before normalization."),
            MX_FIELD(valid_thresh,
                     "Elements above this value are counted by normalization 'valid'."),
            MX_FIELD(normalization,
                     "Divisor of the gradient: null: 1; batch: the batch size; valid: the number "
                     "of valid elements."))
};

}  // namespace mxlite
