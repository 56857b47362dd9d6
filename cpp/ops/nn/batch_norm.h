// BatchNorm. Outputs: normalized data, and each channel's mean and *inverse standard deviation* 1 /
// sqrt(var + eps) that were used (MXNet 1.x names the latter var). Statistics, gamma and beta have
// one dtype, which may be float32 if data is half precision.
#pragma once
#include <optional>
#include <string>

#include "cpp/ops/attr.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite {

// Parameters that all operators with this normalization have.
struct ChannelNormParams {
  double eps = 1e-3;
  float momentum = 0.9f;
  bool fix_gamma = true;

  MX_FIELDS(
      ChannelNormParams,
      MX_FIELD(eps, "Added to the variance so that the divisor is not 0.").at_least(0),
      MX_FIELD(momentum,
               "Weight of the old value in running statistics: running = momentum * running + (1 - "
               "momentum) * batch.")
          .between(0, 1),
      MX_FIELD(fix_gamma, "Whether gamma is taken as 1 and gets gradient 0."))
};

struct BatchNormParams : ChannelNormParams {
  bool use_global_stats = false;
  bool output_mean_var = false;
  int axis = 1;
  bool cudnn_off = false;
  std::optional<float> min_calib_range, max_calib_range;

  MX_FIELDS(
      BatchNormParams, ChannelNormParams::fields(),
      MX_FIELD(use_global_stats,
               "Whether training also normalizes by moving_mean and moving_var and does not update "
               "them."),
      MX_FIELD(
          output_mean_var,
          "Whether to also return the mean and the inverse standard deviation of each channel."),
      MX_FIELD(axis, "Axis of the channels."),
      MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."),
      MX_FIELD(min_calib_range, "Low end of the output's range; used only by quantized models."),
      MX_FIELD(max_calib_range, "High end of the output's range; used only by quantized models."))
};

// `_contrib_SyncBatchNorm` on axis 1. Outputs: data, mean, variance, inverse standard deviation. In
// MXNet 1.x `key` and `ndev` identify the calls on several devices that share statistics. Here the
// statistics are those of one device, so training requires ndev 1.
struct SyncBatchNormParams : BatchNormParams {
  int64_t ndev = 1;
  std::string key;

  MX_FIELDS(SyncBatchNormParams, ChannelNormParams::fields(),
            MX_FIELD(use_global_stats,
                     "Whether training also normalizes by moving_mean and moving_var and does not "
                     "update them."),
            MX_FIELD(output_mean_var,
                     "Whether to also return the mean and the variance of each channel."),
            MX_FIELD(ndev,
                     "Number of devices; training by statistics of the batch supports only 1.")
                .between(1, kMaxSize),
            MX_REQUIRED_FIELD(key, "Name that the calls on all devices share; has no effect."))
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
