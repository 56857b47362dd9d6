// Views an array as three dimensions around one axis.
#pragma once
#include "cpp/core/shape.h"

namespace mxlite {

// Sizes of data viewed as (outer, channels, inner).
struct ChannelBlocks {
  int64_t outer, channels, inner;
};
inline ChannelBlocks channel_blocks(const Shape& data, int axis) {
  if (axis < 0) axis += data.ndim();
  return {data.product(0, axis), data[axis], data.product(axis + 1, data.ndim())};
}

}  // namespace mxlite
