// im2col and its transpose for one image, with up to three spatial dimensions. Rows of the matrix
// are (channel, kernel position) and columns are output positions. For channels-last data, rows are
// output positions and columns are (kernel position, channel).
#pragma once
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/spatial.h"

namespace mxlite::cpu {

struct UnfoldGeometry {
  SpatialWindow window;
  int64_t channels = 0;        // channels of this group
  int64_t size[3], output[3];  // size of the data, and number of windows
  int64_t pixel_stride = 1;    // elements between neighboring pixels in data: 1 or the number of
                               // all channels
  int64_t channel_stride = 1;
  bool channels_last = false;

  int64_t outputs() const { return output[0] * output[1] * output[2]; }
  int64_t rows() const { return channels * window.kernel_size(); }  // for channels-first data
  int64_t pixel(int64_t d, int64_t h, int64_t w) const {
    return ((d * size[1] + h) * size[2] + w) * pixel_stride;
  }
};

// Writes the position (d, h, w) of the pixel that kernel position k reads in the first window.
// Coordinates below 0 are in the padding.
inline void kernel_offset(const SpatialWindow& w, int64_t k, int64_t offset[3]) {
  offset[2] = k % w.kernel[2] * w.dilate[2] - w.pad[2];
  offset[1] = k / w.kernel[2] % w.kernel[1] * w.dilate[1] - w.pad[1];
  offset[0] = k / (w.kernel[2] * w.kernel[1]) * w.dilate[0] - w.pad[0];
}

template <class T, class To>
void unfold_row(const UnfoldGeometry& g, const T* data, int64_t row, To* col) {
  int64_t offset[3];
  kernel_offset(g.window, row % g.window.kernel_size(), offset);
  const T* plane = data + row / g.window.kernel_size() * g.channel_stride;
  for (int64_t d = 0; d < g.output[0]; ++d)
    for (int64_t h = 0; h < g.output[1]; ++h) {
      const int64_t y = d * g.window.stride[0] + offset[0], x = h * g.window.stride[1] + offset[1];
      const bool inside = y >= 0 && y < g.size[0] && x >= 0 && x < g.size[1];
      for (int64_t w = 0; w < g.output[2]; ++w) {
        const int64_t z = w * g.window.stride[2] + offset[2];
        *col++ =
            inside && z >= 0 && z < g.size[2] ? static_cast<To>(plane[g.pixel(y, x, z)]) : To(0);
      }
    }
}

template <class T, class To>
void unfold_pixel(const UnfoldGeometry& g, const T* data, int64_t position, To* col) {
  const int64_t start[3] = {position / (g.output[2] * g.output[1]) * g.window.stride[0],
                            position / g.output[2] % g.output[1] * g.window.stride[1],
                            position % g.output[2] * g.window.stride[2]};
  for (int64_t k = 0; k < g.window.kernel_size(); ++k) {
    int64_t at[3];
    kernel_offset(g.window, k, at);
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      at[i] += start[i];
      inside &= at[i] >= 0 && at[i] < g.size[i];
    }
    const T* source = inside ? data + g.pixel(at[0], at[1], at[2]) : nullptr;
    for (int64_t c = 0; c < g.channels; ++c)
      *col++ = inside ? static_cast<To>(source[c * g.channel_stride]) : To(0);
  }
}

template <class T, class To>
void unfold(const UnfoldGeometry& g, const T* data, To* col) {
  if (g.channels_last) {
    parallel_for(g.outputs(), g.rows(),
                 [&](int64_t o) { unfold_pixel(g, data, o, col + o * g.rows()); });
  } else {
    parallel_for(g.rows(), g.outputs(),
                 [&](int64_t r) { unfold_row(g, data, r, col + r * g.outputs()); });
  }
}

// Sets each data element to the sum of its occurrences in the windows, plus bias[channel] unless
// bias is null. Iterates over data, so that every element is rounded once and written by one
// thread.
template <class From, class T>
void fold(const UnfoldGeometry& g, const From* col, T* data, const T* bias = nullptr) {
  const int64_t pixels = g.size[0] * g.size[1] * g.size[2];
  const int64_t kernel_size = g.window.kernel_size();
  // Distance in `col` from channel to channel.
  const int64_t row_step = g.channels_last ? 1 : kernel_size * g.outputs();
  parallel_for(pixels, g.rows(), [&](int64_t pixel) {
    const int64_t at[3] = {pixel / (g.size[2] * g.size[1]), pixel / g.size[2] % g.size[1],
                           pixel % g.size[2]};
    constexpr int64_t kBlock = 32;
    for (int64_t c0 = 0; c0 < g.channels; c0 += kBlock) {
      const int64_t count = std::min(kBlock, g.channels - c0);
      From sum[kBlock] = {};
      if (bias)
        for (int64_t c = 0; c < count; ++c) sum[c] = static_cast<From>(bias[c0 + c]);
      for (int64_t k = 0; k < kernel_size; ++k) {
        int64_t offset[3], position = 0;
        kernel_offset(g.window, k, offset);
        bool hit = true;
        for (int i = 0; i < 3 && hit; ++i) {
          const int64_t start = at[i] - offset[i];
          hit = start >= 0 && start % g.window.stride[i] == 0 &&
                start / g.window.stride[i] < g.output[i];
          position = position * g.output[i] + start / g.window.stride[i];
        }
        if (!hit) continue;
        const From* source = g.channels_last
                                 ? col + position * g.rows() + k * g.channels + c0
                                 : col + (c0 * kernel_size + k) * g.outputs() + position;
        for (int64_t c = 0; c < count; ++c)
          sum[c] = static_cast<From>(sum[c] + source[c * row_step]);
      }
      T* target = data + pixel * g.pixel_stride + c0 * g.channel_stride;
      for (int64_t c = 0; c < count; ++c) target[c * g.channel_stride] = static_cast<T>(sum[c]);
    }
  });
}

}  // namespace mxlite::cpu
