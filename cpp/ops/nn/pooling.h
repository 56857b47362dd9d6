// Pooling over 1 to 3 spatial dimensions. The maximum of a window with a NaN is NaN (MXNet 1.x on
// the CPU ignores NaN).
// The divisor of an average counts data and padding, but no elements beyond the padding (which
// conventions full and same can reach). If count_include_pad is False, it counts only data.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

enum class PoolType : uint8_t { kAvg, kLp, kMax, kSum };
template <>
struct EnumNames<PoolType> {
  using E = PoolType;
  static constexpr std::array<std::pair<const char*, E>, 4> names = {
      {{"avg", E::kAvg}, {"lp", E::kLp}, {"max", E::kMax}, {"sum", E::kSum}}};
};
enum class PoolingConvention : uint8_t { kFull, kSame, kValid };
template <>
struct EnumNames<PoolingConvention> {
  using E = PoolingConvention;
  static constexpr std::array<std::pair<const char*, E>, 3> names = {
      {{"full", E::kFull}, {"same", E::kSame}, {"valid", E::kValid}}};
};

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

  static constexpr auto fields() {
    using P = PoolingParams;
    return std::tuple(
        field("kernel", &P::kernel, "Size of the window; not used by global pooling.")
            .between(1, kMaxSize),
        field("pool_type", &P::pool_type, "What is made of the elements of a window."),
        field("global_pool", &P::global_pool, "One window over the whole spatial extent."),
        field("cudnn_off", &P::cudnn_off, "Accepted for compatibility, without effect."),
        field("pooling_convention", &P::pooling_convention,
              "Output size: valid rounds down, full up, same divides the padded size by stride."),
        field("stride", &P::stride, "Step of the window; 1 where empty.").between(1, kMaxSize),
        field("pad", &P::pad, "Padding on both sides; 0 where empty.").between(0, kMaxSize),
        field("p_value", &P::p_value, "Exponent of lp pooling: 1, 2 or 3."),
        field("count_include_pad", &P::count_include_pad,
              "Averages count padding in their divisor; None is True."),
        field("layout", &P::layout, "Order of data's dimensions; None is channels first."));
  }
  bool channels_last() const { return is_channels_last(layout); }
  bool includes_pad() const { return count_include_pad.value_or(true); }
  // Whether this is global average pooling of channels-first data: one average per channel.
  bool is_whole_average() const {
    return global_pool && pool_type == PoolType::kAvg && !channels_last();
  }
  // Returns the window; with global_pool, it covers all of data.
  SpatialWindow window(const Shape& data) const;
};

// Params of `_pooling_backward(output_grad[, data[, output]])`: max needs data, lp data and output.
struct PoolingGradParams : PoolingParams {
  Shape data_shape;
  static constexpr auto fields() {
    return std::tuple_cat(PoolingParams::fields(),
                          std::tuple(required_field("data_shape", &PoolingGradParams::data_shape,
                                                    "Shape of the gradient.")));
  }
};

}  // namespace mxlite
