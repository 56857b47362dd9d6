// Normalization within each sample: LayerNorm along an axis, GroupNorm over groups of channels,
// InstanceNorm over each channel. LayerNorm and GroupNorm also output mean and standard deviation
// sqrt(var + eps). Each has a backward operator (output_grad, data, gamma) -> gradients of data,
// gamma and beta. Backward recomputes the statistics, because this takes little time compared with
// reading the data.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct LayerNormParams {
  int axis = -1;
  double eps = 1e-5;
  bool output_mean_var = false;
  MX_FIELDS(
      LayerNormParams, MX_FIELD(axis, "Axis that is normalized."),
      MX_FIELD(eps, "Added to the variance so that the divisor is not 0.").at_least(0),
      MX_FIELD(
          output_mean_var,
          "Whether to also return the mean and the standard deviation used for normalization."))
};

struct GroupNormParams {
  int64_t num_groups = 1;
  double eps = 1e-5;
  bool output_mean_var = false;
  MX_FIELDS(
      GroupNormParams,
      MX_FIELD(num_groups, "Number of groups that the channels (axis 1) are divided into.")
          .between(1, kMaxSize),
      MX_FIELD(eps, "Added to the variance so that the divisor is not 0.").at_least(0),
      MX_FIELD(
          output_mean_var,
          "Whether to also return the mean and the standard deviation used for normalization."))
};

struct InstanceNormParams {
  double eps = 1e-3;
  MX_FIELDS(InstanceNormParams,
            MX_FIELD(eps, "Added to the variance so that the divisor is not 0.").at_least(0))
};

}  // namespace mxlite
