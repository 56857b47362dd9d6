// Normalization within each sample: LayerNorm along an axis, GroupNorm over groups of channels,
// InstanceNorm over each channel. LayerNorm and GroupNorm also output mean and standard deviation
// sqrt(var + eps). Each has a backward operator (output_grad, data, gamma) -> gradients of data,
// gamma and beta, which recomputes the statistics: that costs little beside reading the data.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct LayerNormParams {
  int axis = -1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static constexpr auto fields() {
    using P = LayerNormParams;
    return std::tuple(
        field("axis", &P::axis, "Axis that is normalized."),
        field("eps", &P::eps, "Added to the variance.").at_least(0),
        field("output_mean_var", &P::output_mean_var, "Also return mean and standard deviation."));
  }
};

struct GroupNormParams {
  int64_t num_groups = 1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static constexpr auto fields() {
    using P = GroupNormParams;
    return std::tuple(
        field("num_groups", &P::num_groups, "Number of groups that channels (axis 1) form.")
            .between(1, kMaxSize),
        field("eps", &P::eps, "Added to the variance.").at_least(0),
        field("output_mean_var", &P::output_mean_var, "Also return mean and standard deviation."));
  }
};

struct InstanceNormParams {
  double eps = 1e-3;
  static constexpr auto fields() {
    return std::tuple(field("eps", &InstanceNormParams::eps, "Added to the variance.").at_least(0));
  }
};

}  // namespace mxlite
