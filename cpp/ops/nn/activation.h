// Activation: relu, sigmoid, tanh, softrelu, softsign. relu(NaN) is NaN (MXNet 1.x on the CPU: 0).
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

enum class ActivationType : uint8_t { kRelu, kSigmoid, kSoftrelu, kSoftsign, kTanh };
MX_ENUM_NAMES(ActivationType, {"relu", E::kRelu}, {"sigmoid", E::kSigmoid},
              {"softrelu", E::kSoftrelu}, {"softsign", E::kSoftsign}, {"tanh", E::kTanh})

// Also the params of `_activation_backward(output_grad, value)`, where value is the output, or data
// for softsign.
struct ActivationParams {
  ActivationType act_type = ActivationType::kRelu;
  MX_FIELDS(ActivationParams,
            MX_REQUIRED_FIELD(
                act_type,
                "Activation function; softrelu is log(1 + exp(x)), softsign is x / (1 + abs(x))."))
};

}  // namespace mxlite
