#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/deconvolution.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/upsampling.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Maps planes of the input to planes of the output, which are `scale` times as high and wide.
struct Planes {
  int64_t channels, height, width;  // size of the small array
  int64_t all_channels, first;      // channels of the large array, and the first channel used
  int64_t scale;
};

template <class T>
__global__ void repeat_pixels(int64_t n, const __grid_constant__ Planes p, bool accumulate,
                              const T* in, T* out) {
  using Acc = AccOf<T>;
  const int64_t width = p.width * p.scale, pixels = width * p.height * p.scale;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t plane = i / pixels, y = i % pixels / width, x = i % width;
    const int64_t from = (plane * p.height + y / p.scale) * p.width + x / p.scale;
    const int64_t to =
        (plane / p.channels * p.all_channels + plane % p.channels + p.first) * pixels + i % pixels;
    out[to] = accumulate ? convert<T>(convert<Acc>(out[to]) + convert<Acc>(in[from])) : in[from];
  }
}

template <class T>
__global__ void sum_pixels(int64_t n, const __grid_constant__ Planes p, const T* grad, T* out) {
  using Acc = AccOf<T>;
  const int64_t width = p.width * p.scale, pixels = width * p.height * p.scale;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t plane = i / (p.width * p.height);
    const int64_t y = i / p.width % p.height * p.scale, x = i % p.width * p.scale;
    const T* const from =
        grad + (plane / p.channels * p.all_channels + plane % p.channels + p.first) * pixels +
        y * width + x;
    Acc sum = Acc(0);
    for (int64_t dy = 0; dy < p.scale; ++dy)
      for (int64_t dx = 0; dx < p.scale; ++dx) sum += convert<Acc>(from[dy * width + dx]);
    out[i] = convert<T>(sum);
  }
}

void upsampling(KernelContext& ctx, const UpSamplingParams& p, Inputs in, Outputs out) {
  if (p.sample_type == SampleType::kBilinear)
    return deconvolution(ctx, p.deconvolution(in[0].shape[1]), in, out);
  const bool sum = p.multi_input_mode == MultiInputMode::kSum;
  int64_t channel = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape &s = in[i].shape, &o = out[0].shape;
    const Planes planes{s[1], s[2], s[3], o[1], channel, o[2] / std::max<int64_t>(s[2], 1)};
    const int64_t n = s[0] * s[1] * o[2] * o[3];
    dispatch_float_elements("UpSampling", in[i].dtype, [&]<class T>(T) {
      launch_items(ctx, repeat_pixels<T>, n, n, planes, sum && i > 0, in[i].as<T>(),
                   out[0].as<T>());
    });
    if (!sum) channel += s[1];
  }
}

void upsampling_backward(KernelContext& ctx, const UpSamplingGradParams& p, Inputs in,
                         Outputs out) {
  const Shape& s = out[0].shape;
  const Planes planes{s[1], s[2], s[3], in[0].shape[1], p.channel, p.scale};
  dispatch_float_elements("UpSampling", in[0].dtype, [&]<class T>(T) {
    launch_items(ctx, sum_pixels<T>, out[0].size(), out[0].size(), planes, in[0].as<T>(),
                 out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::upsampling>("UpSampling");
  ops.cuda_kernel<&cuda::upsampling_backward>("_upsampling_backward");
});

}  // namespace mxlite::cuda
