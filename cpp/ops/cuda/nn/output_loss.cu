#include <limits>

#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/output_loss.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

constexpr int kCountingThreads = 1024;  // one block counts or sums

struct Array {
  void* data;
  DType dtype;
};
Array array(const TensorRef& t) { return {t.data, t.dtype}; }

template <class P>
void copy(KernelContext& ctx, const P&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
}

template <class C>
__global__ void sigmoid(int64_t n, Array x, Array y) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(y.data, y.dtype, i,
                C(1) / (C(1) + pointwise::exp_of(-load_as<C>(x.data, x.dtype, i))));
}
void logistic(KernelContext& ctx, const RegressionOutputParams&, Inputs in, Outputs out) {
  const int64_t n = in[0].size();
  dispatch_float_compute(in[0].dtype, [&]<class C>(C) {
    launch_items(ctx, sigmoid<C>, n, n, array(in[0]), array(out[0]));
  });
}

// The score of the true class should be above margin, the scores of other classes below -margin.
template <class C>
__global__ void svm_gradient(int64_t n, int64_t classes, Array x, Array label, C margin, C scale,
                             bool linear, Array out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t wanted = static_cast<int64_t>(load_as<C>(label.data, label.dtype, i / classes));
    const C sign = i % classes == wanted ? C(-1) : C(1);
    const C miss = margin + sign * load_as<C>(x.data, x.dtype, i);
    const C slope = miss > C(0) ? (linear ? C(1) : C(2) * miss) : C(0);
    store_as<C>(out.data, out.dtype, i, sign * slope * scale);
  }
}
void svm_output_backward(KernelContext& ctx, const SVMOutputParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].size(), classes = in[0].shape.product(1, in[0].shape.ndim());
  dispatch_float_compute(in[0].dtype, [&]<class C>(C) {
    launch_items(ctx, svm_gradient<C>, n, n, classes, array(in[0]), array(in[1]),
                 static_cast<C>(p.margin), static_cast<C>(p.regularization_coefficient),
                 p.use_linear, array(out[0]));
  });
}

// One block counts the elements above the threshold (unless the count is known).
template <class C>
__global__ void __launch_bounds__(kCountingThreads)
    count_above(int64_t n, Array x, float threshold, double* count) {
  int64_t above = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    above += static_cast<float>(load_as<C>(x.data, x.dtype, i)) > threshold;
  above = block_sum(above);
  if (threadIdx.x == 0) *count = static_cast<double>(above);
}
template <class C>
__global__ void fill_share(int64_t n, double value, double known, const double* count, Array out) {
  const double divisor = count ? *count : known;
  const C v = static_cast<C>(value / (divisor > 1 ? divisor : 1.0));
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(out.data, out.dtype, i, v);
}
void make_loss_backward(KernelContext& ctx, const MakeLossParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].size();
  double known = 1;
  double* count = nullptr;
  if (p.normalization == LossNormalization::kBatch)
    known = static_cast<double>(in[0].shape.ndim() > 0 ? in[0].shape[0] : 1);
  dispatch_float_compute(in[0].dtype, [&]<class C>(C) {
    if (p.normalization == LossNormalization::kValid) {
      count = static_cast<double*>(ctx.scratch(sizeof(double)));
      launch(ctx, count_above<C>, 1, kCountingThreads, n, array(in[0]), p.valid_thresh, count);
    }
    launch_items(ctx, fill_share<C>, n, n, static_cast<double>(p.grad_scale), known, count,
                 array(out[0]));
  });
}

__device__ __forceinline__ int64_t class_index(const Array& label, int64_t n, int64_t classes) {
  const double v = load_any<double>(label.data, label.dtype, n);
  const double last = static_cast<double>(classes - 1);
  return v > 0 ? static_cast<int64_t>(v < last ? v : last) : 0;
}

// A block computes a row's largest element `top` and log(sum(exp(x - top))).
template <class C>
__device__ __forceinline__ void log_sum_exp(const Array& x, int64_t first, int64_t classes, C& top,
                                            C& log_sum) {
  top = -std::numeric_limits<C>::infinity();
  for (int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
    const C v = load_as<C>(x.data, x.dtype, first + k);
    top = v > top ? v : top;
  }
  top = block_max(top, -std::numeric_limits<C>::infinity());
  C sum = C(0);
  for (int64_t k = threadIdx.x; k < classes; k += blockDim.x)
    sum += pointwise::exp_of_negative(load_as<C>(x.data, x.dtype, first + k) - top);
  log_sum = std::log(block_sum(sum));
}

template <class C>
__global__ void row_losses(int64_t batch, int64_t classes, Array x, Array label, C* losses) {
  for (int64_t n = blockIdx.x; n < batch; n += gridDim.x) {
    C top, log_sum;
    log_sum_exp(x, n * classes, classes, top, log_sum);
    if (threadIdx.x == 0) {
      const C v = load_as<C>(x.data, x.dtype, n * classes + class_index(label, n, classes));
      losses[n] = log_sum - (v - top);
    }
  }
}
template <class C>
__global__ void __launch_bounds__(kCountingThreads)
    sum_losses(int64_t n, const C* losses, Array out) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(losses[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) store_as<C>(out.data, out.dtype, 0, static_cast<C>(sum));
}
void softmax_cross_entropy(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t batch = in[0].shape[0], classes = in[0].shape[1];
  if (batch == 0 || classes == 0) return zero_bytes(ctx, out[0].data, out[0].bytes());
  dispatch_float_compute(in[0].dtype, [&]<class C>(C) {
    auto* losses = static_cast<C*>(ctx.scratch(static_cast<size_t>(batch) * sizeof(C)));
    launch(ctx, row_losses<C>, blocks_per_task(ctx, batch), kThreads, batch, classes, array(in[0]),
           array(in[1]), losses);
    launch(ctx, sum_losses<C>, 1, kCountingThreads, batch, losses, array(out[0]));
  });
}

template <class C>
__global__ void entropy_gradient(int64_t batch, int64_t classes, Array head, Array x, Array label,
                                 Array out) {
  for (int64_t n = blockIdx.x; n < batch; n += gridDim.x) {
    C top, log_sum;
    log_sum_exp(x, n * classes, classes, top, log_sum);
    const C grad = load_as<C>(head.data, head.dtype, 0), scale = pointwise::exp_of(-log_sum);
    const int64_t wanted = class_index(label, n, classes);
    for (int64_t k = threadIdx.x; k < classes; k += blockDim.x) {
      const C v = load_as<C>(x.data, x.dtype, n * classes + k);
      const C share = pointwise::exp_of_negative(v - top) * scale;
      store_as<C>(out.data, out.dtype, n * classes + k,
                  grad * (k == wanted ? share - C(1) : share));
    }
  }
}
void softmax_cross_entropy_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t batch = in[1].shape[0], classes = in[1].shape[1];
  if (batch == 0 || classes == 0) return;
  dispatch_float_compute(in[1].dtype, [&]<class C>(C) {
    launch(ctx, entropy_gradient<C>, blocks_per_task(ctx, batch), kThreads, batch, classes,
           array(in[0]), array(in[1]), array(in[2]), array(out[0]));
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&copy<RegressionOutputParams>>("LinearRegressionOutput");
  ops.cuda_kernel<&logistic>("LogisticRegressionOutput");
  ops.cuda_kernel<&copy<RegressionOutputParams>>("MAERegressionOutput");
  ops.cuda_kernel<&copy<SVMOutputParams>>("SVMOutput");
  ops.cuda_kernel<&svm_output_backward>("_svm_output_backward");
  ops.cuda_kernel<&copy<MakeLossParams>>("MakeLoss");
  ops.cuda_kernel<&make_loss_backward>("_make_loss_backward");
  ops.cuda_kernel<&softmax_cross_entropy>("softmax_cross_entropy");
  ops.cuda_kernel<&softmax_cross_entropy_backward>("_softmax_cross_entropy_backward");
});

}  // namespace mxlite::cuda
