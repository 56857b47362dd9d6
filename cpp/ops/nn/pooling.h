// Pooling over 1 to 3 spatial dimensions. The maximum of a window with a NaN is NaN (MXNet 1.x on
// the CPU ignores NaN).
// The divisor of an average counts data and padding, but no elements beyond the padding (which
// conventions full and same can reach). With count_include_pad=False, it counts only data.
#pragma once
#include <optional>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

enum class PoolType : uint8_t { kAvg, kLp, kMax, kSum };
MX_ENUM_NAMES(PoolType, {"avg", E::kAvg}, {"lp", E::kLp}, {"max", E::kMax}, {"sum", E::kSum})
enum class PoolingConvention : uint8_t { kFull, kSame, kValid };
MX_ENUM_NAMES(PoolingConvention, {"full", E::kFull}, {"same", E::kSame}, {"valid", E::kValid})

struct PoolingParams {
  Shape kernel;
  PoolType pool_type = PoolType::kMax;
  bool global_pool = false;
  bool cudnn_off = false;
  PoolingConvention pooling_convention = PoolingConvention::kValid;
  Shape stride, pad;
  std::optional<int64_t> p_value;
  std::optional<bool> count_include_pad;
  std::optional<SpatialLayout> layout;

  MX_FIELDS(
      PoolingParams,
      MX_FIELD(kernel,
               "Size of the window along each spatial axis; ignored if global_pool is True.")
          .between(1, kMaxSize),
      MX_FIELD(pool_type, "Value computed from each window; lp is the p-norm with p = p_value."),
      MX_FIELD(global_pool, "Whether a single window covers all spatial axes."),
      MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."),
      MX_FIELD(pooling_convention,
               "How output sizes are rounded: valid: floor((padded size - kernel) / stride) + 1; "
               "full: the same with ceil; same: ceil(padded size / stride)."),
      MX_FIELD(stride, "Step of the window along each spatial axis; () is 1.").between(1, kMaxSize),
      MX_FIELD(pad, "Number of elements of padding at both ends of each spatial axis; () is 0.")
          .between(0, kMaxSize),
      MX_FIELD(p_value, "Exponent p of pool_type 'lp': 1, 2 or 3."),
      MX_FIELD(count_include_pad, "Whether averages count padding in their divisor; None is True."),
      MX_FIELD(layout, "Order of data's dimensions; None is NCW, NCHW or NCDHW."))
  bool channels_last() const { return is_channels_last(layout); }
  bool includes_pad() const { return count_include_pad.value_or(true); }
  // Returns whether this is global average pooling of channels-first data: one average per channel.
  bool is_whole_average() const {
    return global_pool && pool_type == PoolType::kAvg && !channels_last();
  }
  // Returns the window; with global_pool, it covers all of data.
  SpatialWindow window(const Shape& data) const;
};

// Params of `_pooling_backward(output_grad[, data[, output]])`. max requires data; lp requires data
// and output.
struct PoolingGradParams : PoolingParams {
  Shape data_shape;
  MX_FIELDS(PoolingGradParams, PoolingParams::fields(),
            MX_REQUIRED_FIELD(data_shape, "Shape of the gradient."))
};

}  // namespace mxlite
