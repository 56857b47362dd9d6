// Parameters of AdamW and LAMB over many weights.
#pragma once
#include "cpp/ops/op_schema.h"

namespace mxlite::optimizer {

struct MultiAdamWParams {
  std::vector<double> lrs;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::vector<double> wds;
  std::vector<double> etas;
  double clip_gradient = -1;
  int64_t num_weights = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("lrs", &MultiAdamWParams::lrs, "Learning rate of each weight."),
        field("beta1", &MultiAdamWParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &MultiAdamWParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &MultiAdamWParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("wds", &MultiAdamWParams::wds, "Weight decay of each weight."),
        required_field("etas", &MultiAdamWParams::etas, "Schedule multiplier of each weight."),
        field("clip_gradient", &MultiAdamWParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("num_weights", &MultiAdamWParams::num_weights, "How many weights.")
            .between(1, kMaxSize));
  }
};

struct MultiLambParams {
  std::vector<double> learning_rates;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  std::vector<double> wds;
  double rescale_grad = 1;
  double lower_bound = -1;
  double upper_bound = -1;
  double clip_gradient = -1;
  bool bias_correction = true;
  Shape step_count;
  int64_t num_tensors = 1;
  static constexpr auto fields() {
    return std::tuple(
        required_field("learning_rates", &MultiLambParams::learning_rates,
                       "Learning rate of each weight."),
        field("beta1", &MultiLambParams::beta1, "Decay of the mean.").between(0, 1),
        field("beta2", &MultiLambParams::beta2, "Decay of the variance.").between(0, 1),
        field("epsilon", &MultiLambParams::epsilon, "Keeps the divisor above 0.").at_least(0),
        required_field("wds", &MultiLambParams::wds, "Weight decay of each weight."),
        field("rescale_grad", &MultiLambParams::rescale_grad, "Factor on the gradient."),
        field("lower_bound", &MultiLambParams::lower_bound,
              "Lower bound of a weight's norm; not above 0: none."),
        field("upper_bound", &MultiLambParams::upper_bound,
              "Upper bound of a weight's norm; not above 0: none."),
        field("clip_gradient", &MultiLambParams::clip_gradient,
              "Limit of the scaled gradient; below 0: none."),
        field("bias_correction", &MultiLambParams::bias_correction, "Correct the first steps?"),
        required_field("step_count", &MultiLambParams::step_count,
                       "Number of each weight's update, from 1.")
            .at_least(1),
        field("num_tensors", &MultiLambParams::num_tensors, "How many weights.")
            .between(1, kMaxSize));
  }
};

}  // namespace mxlite::optimizer
