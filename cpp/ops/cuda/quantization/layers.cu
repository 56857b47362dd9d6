// Convolution, linear layer and pooling of quantized data: on tensor cores, or in loops that sum
// products in int32 with wrap-around, like the processors' instructions.
#include "cpp/ops/cuda/quantization/convolution_loops.h"
#include "cpp/ops/cuda/quantization/tensor_cores.cuh"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace quantization;  // NOLINT: this file uses its parameters and scales

void convolution(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  BiasUnits bias;
  if (!p.no_bias) bias.bias = in[2].as<int8_t>();
  if (!convolve_on_tensor_cores(ctx, p, bias, in, out))
    convolve_in_loops(ctx, p, {in[0].shape, in[0].dtype}, out[0].shape, 0, in[0].data,
                      in[1].as<int8_t>(), bias.bias, out[0].as<int32_t>());
  give_product_range(ctx, largest(DType::kInt8), in, p.no_bias ? 2 : 3, out);
}

// One warp per output.
__global__ void multiply_rows(int64_t n, int64_t hidden, int64_t columns, Numbers data,
                              const int8_t* weight, BiasUnits b, int32_t* out) {
  const int64_t lane = threadIdx.x % kWarp;
  const float units = b.bias ? b.get() : 0;
  for (int64_t i = global_index() / kWarp; i < n; i += grid_stride() / kWarp) {
    const int64_t row = i / hidden, column = i % hidden;
    uint32_t sum = 0;
    for (int64_t k = lane; k < columns; k += kWarp)
      sum += static_cast<uint32_t>(data.load_integer(row * columns + k) *
                                   weight[column * columns + k]);
    sum = warp_sum(sum);
    if (lane != 0) continue;
    if (b.bias) sum += static_cast<uint32_t>(b.at(column, units));
    out[i] = static_cast<int32_t>(sum);
  }
}
void fully_connected(KernelContext& ctx, const FullyConnectedParams& p, Inputs in, Outputs out) {
  const auto [rows, columns] = fully_connected_rows(p, in[0].shape);
  const size_t first = p.no_bias ? 2 : 3;
  BiasUnits b{};
  if (!p.no_bias)
    b = {in[2].as<int8_t>(),
         true,
         Range::of(in[first], in[first + 1]),
         Range::of(in[first + 2], in[first + 3]),
         Range::of(in[first + 4], in[first + 5]),
         full_scale(in[0].dtype),
         full_scale(DType::kInt8)};
  const int64_t n = rows * p.num_hidden;
  if (!multiply_on_tensor_cores(ctx, p, b, in, out))
    launch_items(ctx, multiply_rows, n * kWarp, n, static_cast<int64_t>(p.num_hidden),
                 static_cast<int64_t>(columns), Numbers(in[0]), in[1].as<int8_t>(), b,
                 out[0].as<int32_t>());
  give_product_range(ctx, largest(in[0].dtype), in, first, out);
}

struct Pool {
  SpatialDims in, out;
  SpatialWindow w;
  bool last, average, includes_pad;
};
__global__ void pool_numbers(int64_t n, const __grid_constant__ Pool a, Numbers from, Numbers to) {
  const int64_t plane = a.out.size[0] * a.out.size[1] * a.out.size[2];
  const int64_t image = a.in.size[0] * a.in.size[1] * a.in.size[2];
  const int64_t window = a.w.kernel[0] * a.w.kernel[1] * a.w.kernel[2];
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t place = a.last ? i / a.out.channels % plane : i % plane;
    const int64_t channel = a.last ? i % a.out.channels : i / plane % a.out.channels;
    const int64_t sample = i / plane / a.out.channels;
    const int64_t start = a.last ? sample * image * a.in.channels + channel
                                 : (sample * a.in.channels + channel) * image;
    const int64_t step = a.last ? a.in.channels : 1;  // distance between neighbors along the last
                                                      // axis
    const int64_t at[3] = {place / (a.out.size[1] * a.out.size[2]),
                           place / a.out.size[2] % a.out.size[1], place % a.out.size[2]};
    int64_t begin[3], end[3];
    for (int k = 0; k < 3; ++k) {
      const int64_t low = at[k] * a.w.stride[k] - a.w.pad[k], high = low + a.w.kernel[k];
      begin[k] = low > 0 ? low : 0;
      end[k] = high < a.in.size[k] ? high : a.in.size[k];
    }
    int64_t sum = 0, count = 0;
    int32_t most = from.dtype == DType::kUInt8 ? 0 : -128;
    for (int64_t d = begin[0]; d < end[0]; ++d)
      for (int64_t h = begin[1]; h < end[1]; ++h)
        for (int64_t x = begin[2]; x < end[2]; ++x, ++count) {
          const int32_t v =
              from.load_integer(start + ((d * a.in.size[1] + h) * a.in.size[2] + x) * step);
          sum += v;
          most = v > most ? v : most;
        }
    const int64_t divisor = a.includes_pad ? window : count > 0 ? count : 1;
    to.store(i, a.average ? static_cast<float>(sum) / static_cast<float>(divisor)
                          : static_cast<float>(most));
  }
}
void pooling(KernelContext& ctx, const PoolingParams& p, Inputs in, Outputs out) {
  Pool a;
  a.last = p.channels_last();
  a.in = spatial_dims(in[0].shape, a.last);
  a.out = spatial_dims(out[0].shape, a.last);
  a.w = p.window(in[0].shape);
  a.average = p.pool_type == PoolType::kAvg;
  a.includes_pad = p.includes_pad();
  launch_items(ctx, pool_numbers, out[0].size(), out[0].size(), a, Numbers(in[0]), Numbers(out[0]));
  give_range(ctx, Range::of(in[1], in[2]), out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::convolution>("_contrib_quantized_conv");
  ops.cuda_kernel<&cuda::fully_connected>("_contrib_quantized_fully_connected");
  ops.cuda_kernel<&cuda::pooling>("_contrib_quantized_pooling");
});

}  // namespace mxlite::cuda
