// Tiles of 6 x 6 pixels: their memory and data transform. Included once per instruction set.
#pragma once
#include "cpp/ops/cpu/nn/winograd/winograd_kernels.h"
#include "cpp/ops/cpu/nn/winograd/winograd_transforms.h"

namespace mxlite::cpu {
namespace {

struct Tile {
  int64_t image, row, column;  // position of the first output pixel
};
inline Tile tile_at(const WinogradProblem& p, int64_t index) {
  const int64_t across = p.tiles_across(), down = p.tiles_down();
  return {index / (across * down), index / across % down * p.tile_outputs(),
          index % across * p.tile_outputs()};
}

// Strides in floats, for channels-last memory or blocks of kLane channels.
struct PixelStrides {
  int64_t image, row, pixel, block;  // distances between neighbors; a block has kLane channels
};
inline PixelStrides pixels_of(bool blocked, int64_t height, int64_t width, int64_t channels) {
  const int64_t image = height * width * channels;
  return blocked ? PixelStrides{image, width * kLane, kLane, height * width * kLane}
                 : PixelStrides{image, width * channels, channels, kLane};
}
inline PixelStrides data_pixels(const WinogradProblem& p) {
  return pixels_of(p.data_blocked, p.height, p.width, p.channels);
}
inline PixelStrides output_pixels(const WinogradProblem& p) {
  return pixels_of(p.output_blocked, p.out_height(), p.out_width(), p.filters);
}

// Transforms kLane channels of the tile whose first pixel is at (`top`, `left`) into the 36 slabs.
inline void transform_tile_data(const float* image, const PixelStrides& at,
                                const WinogradProblem& p, int64_t top, int64_t left, bool inside,
                                float* out, int64_t slab) {
  Vec half[6][6];
  for (int i = 0; i < 6; ++i) {
    Vec d[6];
    const float* const row = image + (top + i) * at.row + left * at.pixel;
    if (inside) {
      MX_UNROLL for (int j = 0; j < 6; ++j) d[j] = load(row + j * at.pixel);
    } else {
      const bool row_inside = top + i >= 0 && top + i < p.height;
      MX_UNROLL for (int j = 0; j < 6; ++j) d[j] =
          row_inside && left + j >= 0 && left + j < p.width ? load(row + j * at.pixel) : zero();
    }
    transform_data(d, half[i]);
  }
  MX_UNROLL for (int j = 0; j < 6; ++j) {
    const Vec column[6] = {half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]};
    Vec v[6];
    transform_data(column, v);
    MX_UNROLL for (int i = 0; i < 6; ++i) store(out + (i * 6 + j) * slab, v[i]);
  }
}

// Transforms `channels` channels of tile t of a block (tile `index` of the problem) into the slabs.
inline void transform_tile(const WinogradProblem& p, const float* data, int64_t index, int64_t t,
                           int64_t slab, float* slabs) {
  const Tile tile = tile_at(p, index);
  const PixelStrides at = data_pixels(p);
  const int64_t top = tile.row - p.pad_height, left = tile.column - p.pad_width;
  const float* const image = data + tile.image * at.image;
  const bool inside = top >= 0 && left >= 0 && top + 6 <= p.height && left + 6 <= p.width;
  for (int64_t c = 0; c < p.channels; c += kLane)
    transform_tile_data(image + c / kLane * at.block, at, p, top, left, inside,
                        slabs + t * p.channels + c, slab);
}

}  // namespace
}  // namespace mxlite::cpu
