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
      MX_FIELD(kernel, "Size of the window; not used by global pooling.").between(1, kMaxSize),
      MX_FIELD(pool_type, "What is made of the elements of a window."),
      MX_FIELD(global_pool, "One window over the whole spatial extent."),
      MX_FIELD(cudnn_off, "Accepted for compatibility, without effect."),
      MX_FIELD(pooling_convention,
               "Output size: valid rounds down, full up, same divides the padded size by stride."),
      MX_FIELD(stride, "Step of the window; 1 where empty.").between(1, kMaxSize),
      MX_FIELD(pad, "Padding on both sides; 0 where empty.").between(0, kMaxSize),
      MX_FIELD(p_value, "Exponent of lp pooling: 1, 2 or 3."),
      MX_FIELD(count_include_pad, "Averages count padding in their divisor; None is True."),
      MX_FIELD(layout, "Order of data's dimensions; None is channels first."))
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
