#include <cuda_runtime.h>

#include <cmath>

#include "cpp/base/error.h"
#include "cpp/core/cuda/launch.h"
#include "cpp/io/cuda/sample_kernel.h"

namespace mxlite::cuda {
namespace {

using io::PixelTap;
using io::SampleWork;

constexpr unsigned kThreads = 128;

// Channel of block (x, y), which is one pixel unless the image is shrunk by a denominator.
__device__ int block_value(const SampleWork& w, int x, int y, int channel) {
  const int64_t row_bytes = static_cast<int64_t>(w.width) * w.pixel_bytes;
  const int c = w.pixel_bytes == 1 ? 0 : channel;
  const int x0 = w.left + x * w.denominator, y0 = w.top + y * w.denominator;
  if (w.denominator == 1) return w.pixels[y0 * row_bytes + x0 * w.pixel_bytes + c];
  const int x1 = x0 + w.denominator < w.width ? x0 + w.denominator : w.width;
  const int y1 = y0 + w.denominator < w.height ? y0 + w.denominator : w.height;
  int sum = 0;
  for (int i = y0; i < y1; ++i)
    for (int j = x0; j < x1; ++j) sum += w.pixels[i * row_bytes + j * w.pixel_bytes + c];
  const int count = (x1 - x0) * (y1 - y0);
  return (sum + count / 2) / count;
}

// The two steps round as OpenCV's INTER_LINEAR: to 1/128 between columns, then to whole values.
__device__ int row_value(const SampleWork& w, const PixelTap& column, int y, int channel) {
  return (block_value(w, column.first, y, channel) * column.weights[0] +
          block_value(w, column.second, y, channel) * column.weights[1]) >>
         4;
}
__device__ int resized_value(const SampleWork& w, const PixelTap& column, const PixelTap& row,
                             int channel) {
  const int above = row_value(w, column, row.first, channel);
  const int below = row_value(w, column, row.second, channel);
  const int value = (((above * row.weights[0]) >> 16) + ((below * row.weights[1]) >> 16) + 2) >> 2;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

__device__ float element(float, int pixel, float mean, float factor, float shift) {
  return fmaf(static_cast<float>(pixel) - mean, factor, shift);
}
__device__ uint8_t element(uint8_t, int pixel, float, float, float) {
  return static_cast<uint8_t>(pixel);
}
__device__ int8_t element(int8_t, int pixel, float mean, float, float) {
  const float value = static_cast<float>(pixel) - mean;
  return static_cast<int8_t>(value < -128 ? -128.0F : value > 127 ? 127.0F : value);
}

// A thread makes all channels of one position of the sample.
template <class T>
__global__ void __launch_bounds__(kThreads) write_sample(const __grid_constant__ SampleWork w) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y);
  if (x >= w.sample_width) return;
  const int source = w.flip ? w.sample_width - 1 - x : x;
  const PixelTap column = w.columns[source], row = w.rows[y];
  for (int c = 0; c < w.channels; ++c) {
    const int64_t begin = (static_cast<int64_t>(c) * w.sample_height + y) * w.sample_width;
    const float mean = w.means ? w.means[begin + source] : w.mean[static_cast<size_t>(c)];
    static_cast<T*>(w.output)[begin + x] =
        element(T(), resized_value(w, column, row, c), mean, w.factor[static_cast<size_t>(c)],
                w.shift[static_cast<size_t>(c)]);
  }
}

template <class T>
void launch(cudaStream_t stream, const SampleWork& w) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((static_cast<unsigned>(w.sample_width) + kThreads - 1) / kThreads,
                        static_cast<unsigned>(w.sample_height));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  launch_kernel(config, write_sample<T>, w);
}

}  // namespace

void launch_sample_kernel(cudaStream_t stream, const SampleWork& w) {
  if (w.dtype == DType::kFloat32) return launch<float>(stream, w);
  if (w.dtype == DType::kUInt8) return launch<uint8_t>(stream, w);
  MX_ASSERT(w.dtype == DType::kInt8);
  launch<int8_t>(stream, w);
}

}  // namespace mxlite::cuda
