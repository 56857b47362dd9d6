// BatchNorm. Outputs: normalized data, and each channel's mean and *inverse standard deviation* 1 /
// sqrt(var + eps) that were used (MXNet 1.x names the latter var). Statistics, gamma and beta have
// one dtype, which may be float32 if data is half precision.
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/attr.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite {

struct BatchNormParams {
  double eps = 1e-3;
  float momentum = 0.9f;
  bool fix_gamma = true;
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range, max_calib_range;

  MX_FIELDS(BatchNormParams, MX_FIELD(eps, "Added to the variance.").at_least(0),
            MX_FIELD(momentum, "Running statistics: running * m + batch * (1 - m).").between(0, 1),
            MX_FIELD(fix_gamma, "Use 1 for gamma; its gradient is 0."),
            MX_FIELD(use_global_stats, "Use the running statistics in training."),
            MX_FIELD(output_mean_var, "Also return mean and inverse standard deviation."),
            MX_FIELD(axis, "Axis of the channels."),
            MX_FIELD(cudnn_off, "Accepted for compatibility, without effect."),
            MX_FIELD(min_calib_range, "Accepted, used by quantized models only."),
            MX_FIELD(max_calib_range, "Accepted, used by quantized models only."))
};

// `_contrib_SyncBatchNorm` on axis 1. Outputs: data, mean, variance, inverse standard deviation. In
// MXNet 1.x `key` and `ndev` identify the calls on several devices that share statistics. Here the
// statistics are those of one device, so training requires ndev 1.
struct SyncBatchNormParams : BatchNormParams {
  int64_t ndev = 1;
  std::string key;

  MX_FIELDS(
      SyncBatchNormParams, MX_FIELD(eps, "Added to the variance.").at_least(0),
      MX_FIELD(momentum, "Running statistics: running * m + batch * (1 - m).").between(0, 1),
      MX_FIELD(fix_gamma, "Use 1 for gamma; its gradient is 0."),
      MX_FIELD(use_global_stats, "Use the running statistics in training."),
      MX_FIELD(output_mean_var, "Also return mean and variance."),
      MX_FIELD(ndev, "Number of devices; more than 1 only for inference.").between(1, kMaxSize),
      MX_REQUIRED_FIELD(key, "Name that the calls on all devices share."))
};

// `_batch_norm_backward(output_grad, data, gamma, mean, inv_std)` -> gradients of data, gamma and
// beta. batch_stats: the statistics depend on data (training without use_global_stats).
struct BatchNormGradParams : BatchNormParams {
  bool batch_stats = true;
  bool two_grads = false;
  MX_FIELDS(BatchNormGradParams, BatchNormParams::fields(),
            MX_FIELD(batch_stats, "The statistics were computed from data."),
            MX_FIELD(two_grads,
                     "The output's gradient is the sum of the first and the last input; "
                     "only of _batch_norm_add_relu_bits_backward."))
};

}  // namespace mxlite
