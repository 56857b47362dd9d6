// One block for each row.
#include <limits>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/margin_logsumexp.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct Rows {
  MarginLogsumexpParams p;
  int64_t rows, n;
  const void *data, *position;
  DType position_dtype;

  Rows(const MarginLogsumexpParams& p, Inputs in)
      : p(p),
        rows(in[1].size()),
        n(in[0].shape[in[0].shape.ndim() - 1]),
        data(in[0].data),
        position(in[1].data),
        position_dtype(in[1].dtype) {}
  __device__ int64_t at(int64_t row) const {
    return static_cast<int64_t>(load_as<double>(position, position_dtype, row));
  }
};

template <class T>
__global__ void forward(const __grid_constant__ Rows r, T lowest, T most, T* highest, T* total,
                        T* distance) {
  const T scale = static_cast<T>(r.p.scale), minus_infinity = static_cast<T>(-INFINITY);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* const x = static_cast<const T*>(r.data) + row * r.n;
    const int64_t at = r.at(row);
    const bool here = at >= 0 && at < r.n;
    const double target = here ? r.p.target(static_cast<double>(x[at])).logit : 0;
    T high = here ? static_cast<T>(target) : minus_infinity;
    for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
      const T z = i == at ? minus_infinity : scale * x[i];
      high = z > high ? z : high;
    }
    high = block_max(high, minus_infinity);
    high = high < lowest ? lowest : high > most ? most : high;  // avoids inf - inf
    const T moved = here ? static_cast<T>(target - static_cast<double>(high)) : minus_infinity;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
      sum += static_cast<double>(exp(i == at ? moved : scale * x[i] - high));
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
      highest[row] = high;
      total[row] = static_cast<T>(log(sum));
      distance[row] = moved;
    }
  }
}

// `grad` may be `r.data`: the target is read before the block's threads write.
template <class T>
__global__ void backward(const __grid_constant__ Rows r, T lowest, const T* highest, const T* total,
                         const T* total_grad, const T* target_grad, T* grad) {
  const T scale = static_cast<T>(r.p.scale);
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const T* const x = static_cast<const T*>(r.data) + row * r.n;
    const int64_t at = r.at(row);
    const bool here = at >= 0 && at < r.n;
    const MarginTarget target = here ? r.p.target(static_cast<double>(x[at])) : MarginTarget{};
    __syncthreads();
    const T high = highest[row], sum = total[row] < lowest ? T(0) : total[row];
    const T factor = total_grad[row] * scale;
    for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
      T value = factor * exp(scale * x[i] - high - sum);
      if (i == at) {
        const double share =
            exp(target.logit - static_cast<double>(high) - static_cast<double>(sum));
        value = static_cast<T>(target.slope * (static_cast<double>(total_grad[row]) * share +
                                               static_cast<double>(target_grad[row])));
      }
      grad[row * r.n + i] = value;
    }
  }
}

template <class T>
void run_forward(KernelContext& ctx, const Rows& r, Outputs out) {
  using Limits = std::numeric_limits<T>;
  launch(ctx, forward<T>, blocks_per_task(ctx, r.rows), kThreads, r, Limits::lowest(),
         Limits::max(), out[0].as<T>(), out[1].as<T>(), out[2].as<T>());
}

template <class T>
void run_backward(KernelContext& ctx, const Rows& r, Inputs in, Outputs out) {
  launch(ctx, backward<T>, blocks_per_task(ctx, r.rows), kThreads, r,
         std::numeric_limits<T>::lowest(), in[2].as<T>(), in[3].as<T>(), in[4].as<T>(),
         in[5].as<T>(), out[0].as<T>());
}

void margin_logsumexp(KernelContext& ctx, const MarginLogsumexpParams& p, Inputs in, Outputs out) {
  const Rows r(p, in);
  in[0].dtype == DType::kFloat64 ? run_forward<double>(ctx, r, out)
                                 : run_forward<float>(ctx, r, out);
}

void margin_logsumexp_backward(KernelContext& ctx, const MarginLogsumexpParams& p, Inputs in,
                               Outputs out) {
  const Rows r(p, in);
  in[0].dtype == DType::kFloat64 ? run_backward<double>(ctx, r, in, out)
                                 : run_backward<float>(ctx, r, in, out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::margin_logsumexp>("_contrib_margin_logsumexp");
  ops.cuda_kernel<&cuda::margin_logsumexp_backward>("_contrib_margin_logsumexp_backward");
});

}  // namespace mxlite::cuda
