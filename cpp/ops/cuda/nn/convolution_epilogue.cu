#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/convolution_epilogue.h"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

template <class T, int V>
__global__ void finish(int64_t packs, int64_t channels, int64_t inner, const T* bias,
                       const T* addend, bool relu, T* output) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const int64_t at = i * V, c = at / inner % channels, step = inner == 1 ? 1 : 0;
    Acc y[V], other[V] = {};
    load_pack<T>(output, at, y);
    if (addend) load_pack<T>(addend, at, other);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (bias) y[k] += convert<Acc>(bias[c + k * step]);
      y[k] += other[k];
      if (relu && y[k] < Acc(0)) y[k] = Acc(0);  // keeps NaN
    }
    store_pack<T>(output, at, y);
  }
}

void run(KernelContext& ctx, DType dtype, int64_t outer, int64_t channels, int64_t inner,
         const void* bias, const void* addend, bool relu, void* output) {
  constexpr int kWide = 4;
  const int64_t n = outer * channels * inner;
  const bool wide =
      (inner == 1 ? channels : inner) % kWide == 0 && is_aligned(output) && is_aligned(addend);
  dispatch_float_elements("Convolution", dtype, [&]<class T>(T) {
    const T* const b = static_cast<const T*>(bias);
    const T* const a = static_cast<const T*>(addend);
    T* const y = static_cast<T*>(output);
    if (wide)
      launch_items(ctx, finish<T, kWide>, n / kWide, n / kWide, channels, inner, b, a, relu, y);
    else
      launch_items(ctx, finish<T, 1>, n, n, channels, inner, b, a, relu, y);
  });
}

}  // namespace

void convolution_epilogue(KernelContext& ctx, const ConvolutionProblem& p,
                          const ConvolutionOperands& o) {
  const bool forward = p.direction == ConvolutionDirection::kForward;
  const ConvolutionProblem::Numbers& dims = forward ? p.output : p.data;
  int64_t pixels = 1;
  for (int i = 2; i < p.ndim; ++i) pixels *= dims[static_cast<size_t>(i)];
  const int64_t batch = dims[0], channels = dims[1];
  run(ctx, p.dtype, p.channels_last ? batch * pixels : batch, channels,
      p.channels_last ? 1 : pixels, p.bias ? o.bias : nullptr, p.addend ? o.addend : nullptr,
      p.relu, forward ? o.output : o.data);
}

void add_bias(KernelContext& ctx, DType dtype, int64_t outer, int64_t channels, int64_t inner,
              const void* bias, void* output) {
  run(ctx, dtype, outer, channels, inner, bias, nullptr, false, output);
}

}  // namespace mxlite::cuda
