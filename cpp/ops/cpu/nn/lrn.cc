#include "cpp/ops/nn/lrn.h"

#include <cmath>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// scale = knorm + alpha / nsize * sum of squares around channel c, at one pixel.
template <class T, class Acc>
Acc scale_at(const LRNParams& p, const T* pixel, int64_t step, int64_t channels, int64_t c) {
  const int64_t half = p.nsize / 2;
  Acc sum = 0;
  for (int64_t k = std::max<int64_t>(c - half, 0); k < std::min(c + half + 1, channels); ++k) {
    const Acc v = static_cast<Acc>(pixel[k * step]);
    sum += v * v;
  }
  return static_cast<Acc>(p.knorm) + static_cast<Acc>(p.alpha) / static_cast<Acc>(p.nsize) * sum;
}

void lrn_native(KernelContext&, const LRNParams& p, Inputs in, Outputs out) {
  const Shape& s = in[0].shape;
  const int64_t channels = s[1], pixels = s[2] * s[3];
  dispatch_floating("LRN", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(s[0] * channels, pixels * (p.nsize + 20), [&](int64_t plane) {
      const int64_t c = plane % channels;
      const T* image = in[0].as<T>() + (plane - c) * pixels;
      for (int64_t i = 0; i < pixels; ++i) {
        const Acc scale = scale_at<T, Acc>(p, image + i, pixels, channels, c);
        const Acc v = static_cast<Acc>(image[c * pixels + i]);
        out[0].as<T>()[plane * pixels + i] =
            static_cast<T>(v * std::pow(scale, static_cast<Acc>(-p.beta)));
      }
    });
  });
}

// grad_c = g_c scale_c^-beta - 2 alpha beta / nsize x_c sum_k g_k x_k scale_k^(-beta - 1)
void lrn_backward_native(KernelContext& ctx, const LRNParams& p, Inputs in, Outputs out) {
  const Shape& s = in[1].shape;
  const int64_t channels = s[1], pixels = s[2] * s[3], half = p.nsize / 2;
  dispatch_floating("LRN", in[1].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    Acc* scratch = static_cast<Acc*>(
        ctx.scratch(static_cast<size_t>(2 * channels * cpu_threads()) * sizeof(Acc)));
    const int64_t work = channels * (p.nsize + 40);
    cpu::parallel_ranges(s[0] * pixels, work, [&](int64_t begin, int64_t end, int thread) {
      Acc* power = scratch + thread * 2 * channels;
      Acc* inner = power + channels;
      for (int64_t at = begin; at < end; ++at) {
        const int64_t first = at / pixels * channels * pixels + at % pixels;
        const T *grad = in[0].as<T>() + first, *x = in[1].as<T>() + first;
        for (int64_t c = 0; c < channels; ++c) {
          const Acc scale = scale_at<T, Acc>(p, x, pixels, channels, c);
          power[c] = std::pow(scale, static_cast<Acc>(-p.beta));
          inner[c] = static_cast<Acc>(grad[c * pixels]) * static_cast<Acc>(x[c * pixels]) *
                     power[c] / scale;
        }
        const Acc factor = static_cast<Acc>(2 * p.alpha * p.beta) / static_cast<Acc>(p.nsize);
        for (int64_t c = 0; c < channels; ++c) {
          Acc sum = 0;
          for (int64_t k = std::max<int64_t>(c - half, 0); k < std::min(c + half + 1, channels);
               ++k)
            sum += inner[k];
          out[0].as<T>()[first + c * pixels] =
              static_cast<T>(static_cast<Acc>(grad[c * pixels]) * power[c] -
                             factor * static_cast<Acc>(x[c * pixels]) * sum);
        }
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<lrn_native>>("LRN", {.inline_ok = false});
  ops.cpu_kernel<cpu::flushing<lrn_backward_native>>("_lrn_backward", {.inline_ok = false});
});

}  // namespace mxlite
