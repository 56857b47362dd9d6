// L2Normalization (one block per vector, or one thread per vector if vectors are interleaved in
// memory) and LRN (one thread per element).
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/l2_normalization.h"
#include "cpp/ops/nn/lrn.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Vectors {
  ChannelBlocks b;
  double eps;
  int64_t count() const { return b.outer * b.inner; }
  __device__ __forceinline__ int64_t first(int64_t r) const {
    return r / b.inner * b.channels * b.inner + r % b.inner;
  }
};

template <class T, bool by_block>
__device__ __forceinline__ AccOf<T> product_sum(const Vectors& v, const T* a, const T* b) {
  using Acc = AccOf<T>;
  Acc sum = Acc(0);
  for (int64_t i = by_block ? threadIdx.x : 0; i < v.b.channels; i += by_block ? blockDim.x : 1)
    sum += convert<Acc>(a[i * v.b.inner]) * convert<Acc>(b[i * v.b.inner]);
  if constexpr (by_block) sum = block_sum(sum);
  return sum;
}

// If grads is null, y = x / norm. Otherwise (g - y * sum(g * y)) / norm with the same y.
template <class T, bool by_block>
__global__ void normalize(int64_t count, const __grid_constant__ Vectors v, const T* grads,
                          const T* data, T* out) {
  using Acc = AccOf<T>;
  for (int64_t r = by_block ? blockIdx.x : global_index(); r < count;
       r += by_block ? gridDim.x : grid_stride()) {
    const int64_t first = v.first(r);
    const T* const x = data + first;
    const Acc squares = product_sum<T, by_block>(v, x, x) + static_cast<Acc>(v.eps);
    const Acc scale = Acc(1) / std::sqrt(squares);
    const Acc slope = grads ? product_sum<T, by_block>(v, grads + first, x) / squares : Acc(0);
    for (int64_t i = by_block ? threadIdx.x : 0; i < v.b.channels; i += by_block ? blockDim.x : 1) {
      const int64_t at = i * v.b.inner;
      const Acc value = convert<Acc>(x[at]);
      out[first + at] = convert<T>(grads ? (convert<Acc>(grads[first + at]) - value * slope) * scale
                                         : value * scale);
    }
  }
}

void run(KernelContext& ctx, const L2NormalizationParams& p, const TensorRef* grad,
         const TensorRef& x, const TensorRef& out) {
  const Vectors v{p.blocks(x.shape), p.eps};
  if (x.size() == 0) return;
  dispatch_float_elements("L2Normalization", x.dtype, [&]<class T>(T) {
    const T* const g = grad ? grad->as<T>() : nullptr;
    if (v.b.inner == 1)
      launch(ctx, normalize<T, true>, blocks_per_task(ctx, v.count()), kThreads, v.count(), v, g,
             x.as<T>(), out.as<T>());
    else
      launch_items(ctx, normalize<T, false>, v.count(), v.count(), v, g, x.as<T>(), out.as<T>());
  });
}
void l2_normalization(KernelContext& ctx, const L2NormalizationParams& p, Inputs in, Outputs out) {
  run(ctx, p, nullptr, in[0], out[0]);
}
void l2_normalization_backward(KernelContext& ctx, const L2NormalizationParams& p, Inputs in,
                               Outputs out) {
  run(ctx, p, &in[0], in[1], out[0]);
}

struct Response {
  int64_t channels, pixels, half, size;
  float alpha, beta, knorm;
};

// Returns knorm + alpha / nsize * sum of squares around channel c.
template <class T>
__device__ __forceinline__ AccOf<T> response_scale(const Response& r, const T* pixel, int64_t c) {
  using Acc = AccOf<T>;
  const int64_t begin = c > r.half ? c - r.half : 0;
  const int64_t end = c + r.half + 1 < r.channels ? c + r.half + 1 : r.channels;
  Acc sum = Acc(0);
  for (int64_t k = begin; k < end; ++k) {
    const Acc v = convert<Acc>(pixel[k * r.pixels]);
    sum += v * v;
  }
  return static_cast<Acc>(r.knorm) + static_cast<Acc>(r.alpha) / static_cast<Acc>(r.size) * sum;
}

template <class T>
__global__ void lrn_forward(int64_t n, const __grid_constant__ Response r, const T* x, T* y) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t c = i / r.pixels % r.channels;
    const Acc scale = response_scale(r, x + (i - c * r.pixels), c);
    y[i] = convert<T>(convert<Acc>(x[i]) * std::pow(scale, static_cast<Acc>(-r.beta)));
  }
}
// grad_c = g_c scale_c^-beta - 2 alpha beta / nsize x_c sum_k g_k x_k scale_k^(-beta - 1)
template <class T>
__global__ void lrn_backward(int64_t n, const __grid_constant__ Response r, const T* grad,
                             const T* x, T* out) {
  using Acc = AccOf<T>;
  const Acc factor = static_cast<Acc>(2 * r.alpha * r.beta) / static_cast<Acc>(r.size);
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t c = i / r.pixels % r.channels;
    const T* const pixel = x + (i - c * r.pixels);
    const T* const pixel_grad = grad + (i - c * r.pixels);
    Acc sum = Acc(0), own = Acc(0);
    for (int64_t k = c > r.half ? c - r.half : 0; k <= c + r.half && k < r.channels; ++k) {
      const Acc scale = response_scale(r, pixel, k);
      const Acc power = std::pow(scale, static_cast<Acc>(-r.beta));
      if (k == c) own = power;
      sum += convert<Acc>(pixel_grad[k * r.pixels]) * convert<Acc>(pixel[k * r.pixels]) * power /
             scale;
    }
    out[i] = convert<T>(convert<Acc>(grad[i]) * own - factor * convert<Acc>(x[i]) * sum);
  }
}

Response response_of(const LRNParams& p, const Shape& s) {
  return {s[1], s[2] * s[3], p.nsize / 2, p.nsize, p.alpha, p.beta, p.knorm};
}
void lrn(KernelContext& ctx, const LRNParams& p, Inputs in, Outputs out) {
  dispatch_float_elements("LRN", in[0].dtype, [&]<class T>(T) {
    launch_items(ctx, lrn_forward<T>, in[0].size(), in[0].size(), response_of(p, in[0].shape),
                 in[0].as<T>(), out[0].as<T>());
  });
}
void lrn_gradient(KernelContext& ctx, const LRNParams& p, Inputs in, Outputs out) {
  dispatch_float_elements("LRN", in[1].dtype, [&]<class T>(T) {
    launch_items(ctx, lrn_backward<T>, in[1].size(), in[1].size(), response_of(p, in[1].shape),
                 in[0].as<T>(), in[1].as<T>(), out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::l2_normalization>("L2Normalization");
  ops.cuda_kernel<&cuda::l2_normalization_backward>("_l2_normalization_backward");
  ops.cuda_kernel<&cuda::lrn>("LRN");
  ops.cuda_kernel<&cuda::lrn_gradient>("_lrn_backward");
});

}  // namespace mxlite::cuda
