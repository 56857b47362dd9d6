#include "cpp/ops/nn/upsampling.h"

#include <type_traits>

#include "cpp/ops/cpu/nn/deconvolution.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Two = std::integral_constant<int64_t, 2>;

// Repeats each value `scale` times; a compile-time `scale` lets the compiler vectorize the loop.
template <class T, class Scale>
void widen_row(const T* x, int64_t width, Scale scale, T* y) {
#pragma omp simd
  for (int64_t w = 0; w < width; ++w)
    for (int64_t k = 0; k < scale; ++k) y[w * scale + k] = x[w];
}

template <class T>
void repeat(const TensorRef& in, const TensorRef& out, int64_t channel, bool accumulate) {
  using Acc = ComputeType<T>;
  const Shape &s = in.shape, &o = out.shape;
  const int64_t scale = o[2] / s[2];
  cpu::parallel_for(s[0] * s[1], o[2] * o[3], [&](int64_t plane) {
    const int64_t height = s[2], width = s[3], out_width = o[3];
    const T* x = in.as<T>() + plane * height * width;
    T* y = out.as<T>() + (plane / s[1] * o[1] + plane % s[1] + channel) * o[2] * out_width;
    for (int64_t h = 0; h < height; ++h, x += width, y += scale * out_width) {
      if (accumulate) {
        for (int64_t i = 0; i < scale * out_width; ++i)
          y[i] =
              static_cast<T>(static_cast<Acc>(y[i]) + static_cast<Acc>(x[i % out_width / scale]));
        continue;
      }
      scale == 2 ? widen_row(x, width, Two(), y) : widen_row(x, width, scale, y);
      for (int64_t k = 1; k < scale; ++k) std::copy_n(y, out_width, y + k * out_width);
    }
  });
}

// Sums each square of scale x scale gradients to one of `height` x `width` results.
template <class T, class Scale>
void shrink_plane(const T* grad, int64_t height, int64_t width, Scale scale, T* target) {
  for (int64_t h = 0; h < height; ++h, grad += scale * scale * width, target += width) {
#pragma omp simd
    for (int64_t w = 0; w < width; ++w) {
      ComputeType<T> sum = 0;
      for (int64_t y = 0; y < scale; ++y)
        for (int64_t x = 0; x < scale; ++x)
          sum += static_cast<ComputeType<T>>(grad[(y * width + w) * scale + x]);
      target[w] = static_cast<T>(sum);
    }
  }
}

void upsampling_native(KernelContext& ctx, const UpSamplingParams& p, Inputs in, Outputs out) {
  if (p.sample_type == SampleType::kBilinear)
    return cpu::deconvolution(ctx, p.deconvolution(in[0].shape[1]), in, out);
  dispatch_floating("UpSampling", in[0].dtype, [&]<class T>(T) {
    int64_t channel = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const bool sum = p.multi_input_mode == MultiInputMode::kSum;
      repeat<T>(in[i], out[0], channel, sum && i > 0);
      if (!sum) channel += in[i].shape[1];
    }
  });
}

void upsampling_backward_native(KernelContext&, const UpSamplingGradParams& p, Inputs in,
                                Outputs out) {
  const Shape &o = in[0].shape, &s = out[0].shape;
  dispatch_floating("UpSampling", in[0].dtype, [&]<class T>(T) {
    cpu::parallel_for(s[0] * s[1], o[2] * o[3], [&](int64_t plane) {
      const T* grad =
          in[0].as<T>() + (plane / s[1] * o[1] + plane % s[1] + p.channel) * o[2] * o[3];
      T* const target = out[0].as<T>() + plane * s[2] * s[3];
      p.scale == 2 ? shrink_plane(grad, s[2], s[3], Two(), target)
                   : shrink_plane(grad, s[2], s[3], p.scale, target);
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<upsampling_native>("UpSampling", {.inline_ok = false});
  ops.cpu_kernel<upsampling_backward_native>("_upsampling_backward");
});

}  // namespace mxlite
