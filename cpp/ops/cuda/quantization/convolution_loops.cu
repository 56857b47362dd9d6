#include "cpp/ops/cuda/quantization/convert.cuh"
#include "cpp/ops/cuda/quantization/convolution_loops.h"

namespace mxlite::cuda {
namespace {

struct Steps {  // elements between neighbors along batch, channel and space
  int64_t batch, channel, space[3];
  Steps(const int64_t (&size)[3], int64_t channels, bool last) {
    const int64_t pixel = last ? channels : 1;
    space[2] = pixel;
    space[1] = pixel * size[2];
    space[0] = pixel * size[2] * size[1];
    const int64_t plane = size[0] * size[1] * size[2];
    channel = last ? 1 : plane;
    batch = plane * channels;
  }
};

struct Convolve {
  SpatialDims in, out;
  SpatialWindow w;
  int64_t channels, filters;  // numbers per group
  Steps data, weight, sums;
};

// One thread per output.
__global__ void convolve(int64_t n, const __grid_constant__ Convolve a, const void* data,
                         bool is_unsigned, const int8_t* weight, const int8_t* bias,
                         int32_t* sums) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t at[3], rest = i;
    for (int k = 2; k >= 0; --k) {
      at[k] = rest % a.out.size[k];
      rest /= a.out.size[k];
    }
    const int64_t filter = rest % a.out.channels, sample = rest / a.out.channels;
    const int64_t from = sample * a.data.batch + filter / a.filters * a.channels * a.data.channel;
    const int8_t* const kernel = weight + filter * a.weight.batch;
    // As in 1.x on the CPU, the bias is used in units of the sums, regardless of its range.
    uint32_t sum = bias ? static_cast<uint32_t>(int32_t{bias[filter]}) : 0;
    int64_t k[3], x[3];
    for (k[0] = 0; k[0] < a.w.kernel[0]; ++k[0])
      for (k[1] = 0; k[1] < a.w.kernel[1]; ++k[1])
        for (k[2] = 0; k[2] < a.w.kernel[2]; ++k[2]) {
          bool inside = true;
          int64_t place = from, weight_place = 0;
          for (int axis = 0; axis < 3; ++axis) {
            x[axis] = at[axis] * a.w.stride[axis] - a.w.pad[axis] + k[axis] * a.w.dilate[axis];
            inside &= x[axis] >= 0 && x[axis] < a.in.size[axis];
            place += x[axis] * a.data.space[axis];
            weight_place += k[axis] * a.weight.space[axis];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < a.channels; ++c) {
            const int64_t element = place + c * a.data.channel;
            const int32_t value = is_unsigned ? int32_t{static_cast<const uint8_t*>(data)[element]}
                                              : int32_t{static_cast<const int8_t*>(data)[element]};
            sum += static_cast<uint32_t>(value * kernel[weight_place + c * a.weight.channel]);
          }
        }
    int64_t to = sample * a.sums.batch + filter * a.sums.channel;
    for (int axis = 0; axis < 3; ++axis) to += at[axis] * a.sums.space[axis];
    sums[to] = static_cast<int32_t>(sum);
  }
}

}  // namespace

void convolve_in_loops(KernelContext& ctx, const ConvolutionParams& p, const TensorSpec& data_spec,
                       const Shape& output, int64_t last_channels, const void* data,
                       const int8_t* weight, const int8_t* bias, int32_t* sums) {
  const SpatialDims in = spatial_dims(data_spec.shape, false), out = spatial_dims(output, false);
  const SpatialWindow window = p.window();
  const int64_t channels = in.channels / p.num_group;
  const bool last = last_channels > 0;
  MX_ASSERT(!last || p.num_group == 1);
  const Convolve a{in,
                   out,
                   window,
                   channels,
                   p.num_filter / p.num_group,
                   Steps(in.size, last ? last_channels : in.channels, last),
                   Steps(window.kernel, last ? last_channels : channels, last),
                   Steps(out.size, p.num_filter, last)};
  launch_items(ctx, convolve, output.size(), output.size(), a, data,
               data_spec.dtype == DType::kUInt8, weight, bias, sums);
}

}  // namespace mxlite::cuda
