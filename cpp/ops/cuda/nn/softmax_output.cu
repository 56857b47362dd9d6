#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/softmax.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/softmax_output.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void softmax_output(KernelContext& ctx, const SoftmaxOutputParams& p, Inputs in, Outputs out) {
  softmax_forward(ctx, p.blocks(in[0].shape), in, out);
}

constexpr int kCountingThreads = 1024;

// One block counts the labels that are not ignored.
template <class C>
__global__ void __launch_bounds__(kCountingThreads)
    count_valid(int64_t n, const void* label, DType dtype, int64_t ignored, int64_t* count) {
  int64_t valid = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    valid += static_cast<int64_t>(load_as<C>(label, dtype, i)) != ignored;
  valid = block_sum(valid);
  if (threadIdx.x == 0) *count = valid;
}

struct Call {
  ChannelBlocks b;
  double grad_scale, divisor;
  const int64_t* valid;  // if not null, its value is a second factor of the divisor
  float alpha;
  bool use_ignore;
  int64_t ignored;
  DType dtype;
  const void *y, *label, *head;
  void* out;
};

template <class C>
__global__ void index_gradient(int64_t n, const __grid_constant__ Call c) {
  double divisor = c.divisor;
  if (c.valid) divisor *= static_cast<double>(*c.valid > 1 ? *c.valid : 1);
  const C scale = static_cast<C>(c.grad_scale / (divisor > 1 ? divisor : 1.0));
  const C alpha = static_cast<C>(c.alpha);
  const C other = c.b.channels > 1 ? alpha / static_cast<C>(c.b.channels - 1) : C(0);
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t k = i / c.b.inner % c.b.channels;
    const int64_t row = i / (c.b.inner * c.b.channels) * c.b.inner + i % c.b.inner;
    const int64_t wanted = static_cast<int64_t>(load_as<C>(c.label, c.dtype, row));
    C v = load_as<C>(c.y, c.dtype, i) - (k == wanted ? C(1) - alpha : other);
    v = c.use_ignore && wanted == c.ignored ? C(0) : v * scale;
    if (c.head) v *= load_as<C>(c.head, c.dtype, i);
    store_as<C>(c.out, c.dtype, i, v);
  }
}

// Computes the gradient for labels that are probabilities.
template <class C>
__global__ void dense_gradient(int64_t n, const __grid_constant__ Call c) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    C v = (load_as<C>(c.y, c.dtype, i) - load_as<C>(c.label, c.dtype, i)) *
          static_cast<C>(c.grad_scale);
    if (c.head) v *= load_as<C>(c.head, c.dtype, i);
    store_as<C>(c.out, c.dtype, i, v);
  }
}

template <class C>
void backward(KernelContext& ctx, const SoftmaxOutputParams& p, Inputs in, Outputs out) {
  Call call{p.blocks(in[0].shape),
            static_cast<double>(p.grad_scale),
            1.0,
            nullptr,
            p.smooth_alpha,
            p.use_ignore,
            static_cast<int64_t>(p.ignore_label),
            in[0].dtype,
            in[0].data,
            in[1].data,
            in.size() > 2 ? in[2].data : nullptr,
            out[0].data};
  const int64_t n = in[0].size();
  if (in[1].shape == in[0].shape) return launch_items(ctx, dense_gradient<C>, n, n, call);
  // As in 1.x, positions are a factor of the divisor unless normalization is 'valid'.
  const bool by_valid = p.normalization == LossNormalization::kValid;
  if (p.multi_output && !by_valid) call.divisor = static_cast<double>(call.b.inner);
  if (p.normalization == LossNormalization::kBatch)
    call.divisor *= static_cast<double>(call.b.outer);
  if (by_valid) {
    auto* valid = static_cast<int64_t*>(ctx.scratch(sizeof(int64_t)));
    launch(ctx, count_valid<C>, 1, kCountingThreads, in[1].size(), in[1].data, in[1].dtype,
           call.ignored, valid);
    call.valid = valid;
  }
  launch_items(ctx, index_gradient<C>, n, n, call);
}

void softmax_output_backward(KernelContext& ctx, const SoftmaxOutputParams& p, Inputs in,
                             Outputs out) {
  if (in[0].dtype == DType::kFloat64)
    backward<double>(ctx, p, in, out);
  else
    backward<float>(ctx, p, in, out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::softmax_output>("SoftmaxOutput");
  ops.cuda_kernel<&cuda::softmax_output_backward>("_softmax_output_backward");
});

}  // namespace mxlite::cuda
