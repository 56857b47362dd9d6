#include "cpp/ops/cuda/quantization/convert.cuh"
#include "cpp/ops/cuda/quantization/pack.h"
#include "cpp/ops/quantization/int8_product.h"

namespace mxlite::cuda {
namespace {

// Subtracting 128 from a uint8 gives an int8 whose bits differ only in the flipped top bit.
constexpr uint8_t kSignBit = 0x80;
static_assert(quantization::kShift == kSignBit);

// One thread per byte of the copy.
__global__ void copy_rows(const __grid_constant__ PackedRows p, const uint8_t* from, uint8_t* to) {
  const int64_t n = (p.rows + p.zero_rows) * p.padded;
  const uint8_t flip = p.shift ? kSignBit : 0;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t row = i / p.padded, column = i % p.padded;
    const bool inside = row < p.rows && column < p.columns;
    to[i] = inside ? static_cast<uint8_t>(from[row * p.columns + column] ^ flip) : uint8_t{0};
  }
}

// A block transposes one tile at a time in shared memory, so that loads and stores are coalesced.
// The output packs 4 channels into a 32-bit word.
constexpr int kTileChannels = 32, kTilePixels = 128, kWord = 4;

// Returns the pixel of the source for a pixel of the copy, or -1 on the border.
__device__ __forceinline__ int64_t source_pixel(const PackedImages& p, int64_t pixel) {
  int64_t at = 0, step = 1;
#pragma unroll
  for (int i = 2; i >= 0; --i) {
    const int64_t full = p.size[i] + 2 * p.border[i];
    const int64_t place = pixel % full - p.border[i];
    if (place < 0 || place >= p.size[i]) return -1;
    at += place * step;
    step *= p.size[i];
    pixel /= full;
  }
  return at;
}

__device__ __forceinline__ uint8_t pixel_of(const PackedImages& p, const uint8_t* channel,
                                            int64_t pixel) {
  const int64_t at = source_pixel(p, pixel);
  const uint8_t value = at < 0 ? uint8_t{0} : channel[at];
  return static_cast<uint8_t>(p.shift ? value ^ kSignBit : value);
}

__global__ void __launch_bounds__(kThreads)
    pack_tiles(const __grid_constant__ PackedImages p, const uint8_t* from, uint32_t* to) {
  __shared__ uint8_t tile[kTileChannels][kTilePixels + kWord];
  int64_t pixels = 1, image_size = 1;
  for (int i = 0; i < 3; ++i) {
    pixels *= p.size[i] + 2 * p.border[i];
    image_size *= p.size[i];
  }
  const int64_t channel_tiles = (p.padded + kTileChannels - 1) / kTileChannels;
  const int64_t pixel_tiles = (pixels + kTilePixels - 1) / kTilePixels;
  const int64_t tasks = (p.images + p.zero_images) * pixel_tiles * channel_tiles;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t first_channel = task % channel_tiles * kTileChannels;
    const int64_t first_pixel = task / channel_tiles % pixel_tiles * kTilePixels;
    const int64_t image = task / channel_tiles / pixel_tiles;
    __syncthreads();  // the previous tile has been stored, so shared memory may be reused
    for (int k = threadIdx.x; k < kTileChannels * kTilePixels; k += blockDim.x) {
      const int64_t c = first_channel + k / kTilePixels, pixel = first_pixel + k % kTilePixels;
      const bool inside = image < p.images && c < p.channels && pixel < pixels;
      tile[k / kTilePixels][k % kTilePixels] =
          inside ? pixel_of(p, from + (image * p.channels + c) * image_size, pixel) : uint8_t{0};
    }
    __syncthreads();
    constexpr int kWords = kTileChannels / kWord;
    for (int k = threadIdx.x; k < kWords * kTilePixels; k += blockDim.x) {
      const int c = k % kWords * kWord, place = k / kWords;
      const int64_t pixel = first_pixel + place;
      if (pixel >= pixels || first_channel + c >= p.padded) continue;
      uint32_t word = 0;
      for (int byte = 0; byte < kWord; ++byte)
        word |= static_cast<uint32_t>(tile[c + byte][place]) << 8 * byte;
      to[((image * pixels + pixel) * p.padded + first_channel + c) / kWord] = word;
    }
  }
}

// One thread per byte of the copy. Padded channels may have any value, because their weights are
// zeros.
__global__ void shift_pixels(int64_t n, int64_t pixels, int64_t source_pixels,
                             const __grid_constant__ PackedImages p, const uint8_t* from,
                             uint8_t* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t channel = i % p.padded, pixel = i / p.padded % pixels;
    const int64_t image = i / p.padded / pixels, at = source_pixel(p, pixel);
    const uint8_t value =
        at < 0 ? uint8_t{0} : from[(image * source_pixels + at) * p.padded + channel];
    to[i] = static_cast<uint8_t>(value ^ kSignBit);
  }
}

__device__ __forceinline__ int32_t wrapping_add(int32_t sum, int32_t addend) {
  return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(addend));
}

// The arrays are not declared __restrict__, because they may be the same array.
__global__ void copy_sums(int64_t n, int64_t columns, int64_t padded, const int32_t* sums,
                          const int32_t* addends, int32_t* to) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t column = i % columns;
    const int32_t sum = sums[i / columns * padded + column];
    to[i] = addends ? wrapping_add(sum, addends[column]) : sum;
  }
}

constexpr int kSide = 32, kLines = kThreads / kSide;

__global__ void __launch_bounds__(kThreads)
    transpose_sums(int64_t images, int64_t pixels, int64_t channels, int64_t padded,
                   const int32_t* sums, const int32_t* addends, int32_t* to) {
  __shared__ int32_t tile[kSide][kSide + 1];
  const int lane = threadIdx.x % kSide, line = threadIdx.x / kSide;
  const int64_t channel_tiles = (channels + kSide - 1) / kSide;
  const int64_t pixel_tiles = (pixels + kSide - 1) / kSide;
  for (int64_t task = blockIdx.x; task < images * pixel_tiles * channel_tiles; task += gridDim.x) {
    const int64_t channel = task % channel_tiles * kSide;
    const int64_t pixel = task / channel_tiles % pixel_tiles * kSide;
    const int64_t image = task / channel_tiles / pixel_tiles;
    __syncthreads();
    for (int k = line; k < kSide; k += kLines)
      if (pixel + k < pixels && channel + lane < channels)
        tile[k][lane] = sums[(image * pixels + pixel + k) * padded + channel + lane];
    __syncthreads();
    for (int k = line; k < kSide; k += kLines) {
      if (pixel + lane >= pixels || channel + k >= channels) continue;
      const int32_t sum = tile[lane][k];
      to[(image * channels + channel + k) * pixels + pixel + lane] =
          addends ? wrapping_add(sum, addends[channel + k]) : sum;
    }
  }
}

int64_t tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

int64_t pixels_of(const PackedImages& p) {
  int64_t pixels = 1;
  for (int i = 0; i < 3; ++i) pixels *= p.size[i] + 2 * p.border[i];
  return pixels;
}

}  // namespace

void pack_rows(KernelContext& ctx, const PackedRows& p, const void* from, void* to) {
  launch_items(ctx, copy_rows, (p.rows + p.zero_rows) * p.padded, p,
               static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
}

void pack_images(KernelContext& ctx, const PackedImages& p, const void* from, void* to) {
  MX_ASSERT(p.padded % kWord == 0);
  const int64_t tasks = (p.images + p.zero_images) * tiles(pixels_of(p), kTilePixels) *
                        tiles(p.padded, kTileChannels);
  if (tasks == 0) return;
  launch(ctx, pack_tiles, blocks_per_task(ctx, tasks), kThreads, p,
         static_cast<const uint8_t*>(from), static_cast<uint32_t*>(to));
}

void shift_images(KernelContext& ctx, const PackedImages& p, const void* from, void* to) {
  const int64_t pixels = pixels_of(p), n = p.images * pixels * p.padded;
  launch_items(ctx, shift_pixels, n, n, pixels, p.size[0] * p.size[1] * p.size[2], p,
               static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
}

void unpack_rows(KernelContext& ctx, int64_t rows, int64_t columns, int64_t padded,
                 const int32_t* sums, const int32_t* addends, int32_t* to) {
  if (sums == to && !addends) return;
  launch_items(ctx, copy_sums, rows * columns, rows * columns, columns, padded, sums, addends, to);
}

void unpack_images(KernelContext& ctx, int64_t images, int64_t pixels, int64_t channels,
                   int64_t padded, const int32_t* sums, const int32_t* addends, int32_t* to) {
  const int64_t tasks = images * tiles(pixels, kSide) * tiles(channels, kSide);
  if (tasks == 0) return;
  launch(ctx, transpose_sums, blocks_per_task(ctx, tasks), kThreads, images, pixels, channels,
         padded, sums, addends, to);
}

}  // namespace mxlite::cuda
