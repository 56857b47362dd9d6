#include "cpp/ops/nn/upsampling.h"

#include "cpp/ops/cpu/nn/deconvolution.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/register.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

template <class T>
void repeat(const TensorRef& in, const TensorRef& out, int64_t channel, bool accumulate) {
  using Acc = ComputeType<T>;
  const Shape &s = in.shape, &o = out.shape;
  const int64_t scale = o[2] / s[2];
  cpu::parallel_for(s[0] * s[1], o[2] * o[3], [&](int64_t plane) {
    const T* x = in.as<T>() + plane * s[2] * s[3];
    T* y = out.as<T>() + (plane / s[1] * o[1] + plane % s[1] + channel) * o[2] * o[3];
    for (int64_t h = 0; h < o[2]; ++h)
      for (int64_t w = 0; w < o[3]; ++w) {
        const T v = x[h / scale * s[3] + w / scale];
        T& target = y[h * o[3] + w];
        target = accumulate ? static_cast<T>(static_cast<Acc>(target) + static_cast<Acc>(v)) : v;
      }
  });
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
      T* target = out[0].as<T>() + plane * s[2] * s[3];
      for (int64_t h = 0; h < s[2]; ++h)
        for (int64_t w = 0; w < s[3]; ++w) {
          ComputeType<T> sum = 0;
          for (int64_t y = h * p.scale; y < (h + 1) * p.scale; ++y)
            for (int64_t x = w * p.scale; x < (w + 1) * p.scale; ++x) sum += grad[y * o[3] + x];
          target[h * s[3] + w] = static_cast<T>(sum);
        }
    });
  });
}

}  // namespace

void register_upsampling_cpu(OpRegistry& ops) {
  ops.kernel<upsampling_native>("UpSampling", DeviceType::kCPU, {.inline_ok = false});
  ops.kernel<upsampling_backward_native>("_upsampling_backward", DeviceType::kCPU);
}

}  // namespace mxlite
