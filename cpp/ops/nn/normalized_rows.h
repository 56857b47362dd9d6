// Common description of LayerNorm, GroupNorm and InstanceNorm for all devices: each row is
// normalized to mean 0 and variance 1, then each run of its elements is scaled by a separate gamma
// and shifted by a separate beta.
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/nn/layer_norm.h"

namespace mxlite {

struct NormalizedRows {
  int64_t count, length;
  int64_t inner = 1;  // number of interleaved rows; 1 if rows are contiguous
  int64_t cycle = 1;  // rows r and r + cycle share gamma
  int64_t run = 1;    // number of adjacent elements with the same gamma
  double eps;

  MX_HOST_DEVICE int64_t first(int64_t r) const { return r / inner * length * inner + r % inner; }
  MX_HOST_DEVICE int64_t params_per_row() const { return length / (run > 1 ? run : 1); }
  MX_HOST_DEVICE int64_t first_param(int64_t r) const { return r % cycle * params_per_row(); }
};

inline NormalizedRows make_rows(const LayerNormParams& p, const Shape& data, const Shape&) {
  const ChannelBlocks b = channel_blocks(data, p.axis);
  return {.count = b.outer * b.inner, .length = b.channels, .inner = b.inner, .eps = p.eps};
}
inline NormalizedRows make_rows(const GroupNormParams& p, const Shape& data, const Shape& gamma) {
  const int64_t pixels = data.product(2, data.ndim());
  return {.count = data[0] * p.num_groups,
          .length = data[1] / p.num_groups * pixels,
          .cycle = p.num_groups,
          .run = gamma[0] > 0 ? data[1] / gamma[0] * pixels : pixels,
          .eps = p.eps};
}
inline NormalizedRows make_rows(const InstanceNormParams& p, const Shape& data, const Shape&) {
  const int64_t pixels = data.product(2, data.ndim());
  return {
      .count = data[0] * data[1], .length = pixels, .cycle = data[1], .run = pixels, .eps = p.eps};
}

}  // namespace mxlite
