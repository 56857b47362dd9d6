// L2Normalization: data / sqrt(sum of squares + eps) over a sample (instance), over the channels of
// a pixel (channel) or over the pixels of a channel (spatial).
#pragma once
#include "cpp/ops/attr.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite {

enum class L2Mode : uint8_t { kChannel, kInstance, kSpatial };
MX_ENUM_NAMES(L2Mode, {"channel", E::kChannel}, {"instance", E::kInstance},
              {"spatial", E::kSpatial})

// Also the params of `_l2_normalization_backward(output_grad, data)`.
struct L2NormalizationParams {
  double eps = 1e-10;
  L2Mode mode = L2Mode::kInstance;
  MX_FIELDS(L2NormalizationParams,
            MX_FIELD(eps, "Added to the sum of squares before the square root.").at_least(0),
            MX_FIELD(mode,
                     "Elements of a sample that share a norm: instance: all elements; channel: all "
                     "channels at one position; spatial: all positions of one channel."))
  // Views data as (outer, length, inner); vectors along the middle axis are normalized.
  ChannelBlocks blocks(const Shape& data) const {
    if (mode == L2Mode::kChannel) return channel_blocks(data, 1);
    const int split = mode == L2Mode::kInstance ? 1 : 2;
    return {data.product(0, split), data.product(split, data.ndim()), 1};
  }
};

}  // namespace mxlite
