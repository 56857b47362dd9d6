#include "cpp/ops/cuda/optimizer/update.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace optimizer;  // NOLINT: this file uses its rules and parameters

// Inputs: weight, grad, states, then the float32 weight if mixed, then the scale if it is an input.
template <template <class> class Rule, class P, size_t kStates, bool mixed>
void update(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  constexpr size_t kArrays = 2 + kStates + (mixed ? 1 : 0);
  const UpdateArrays a = update_arrays(in[0], in[1], in.subspan(2, kStates),
                                       mixed ? &in[kArrays - 1] : nullptr, out[0]);
  DeviceNumbers numbers;
  if (in.size() > kArrays) numbers.scale = device_array(in[kArrays]);
  run_update(ctx, a, in[0].dtype, KnownRule<Rule>{Rule<float>(p), Rule<double>(p)}, numbers);
}

// Writes the step to `out` and does not change the weight.
template <bool mixed>
void lamb_phase1(KernelContext& ctx, const LambParams& p, Inputs in, Outputs out) {
  const UpdateArrays a =
      update_arrays(mixed ? in[4] : in[0], in[1], in.subspan(2, 2), nullptr, out[0]);
  run_update(ctx, a, in[0].dtype, KnownRule<Lamb>{Lamb<float>(p), Lamb<double>(p)});
}

// The norms of weight and step are in device memory.
struct LambStepRule {
  LambStepParams p;
  DeviceArray r1, r2;
  template <class C>
  __device__ __forceinline__ LambStep<C> make(const DeviceNumbers&, int64_t) const {
    double weight = load_any<double>(r1.data, r1.dtype, 0);
    const double step = load_any<double>(r2.data, r2.dtype, 0);
    if (p.lower_bound >= 0 && weight < p.lower_bound) weight = p.lower_bound;
    if (p.upper_bound >= 0 && weight > p.upper_bound) weight = p.upper_bound;
    return {static_cast<C>(weight == 0 || step == 0 ? p.lr : p.lr * weight / step)};
  }
};

template <bool mixed>
void lamb_phase2(KernelContext& ctx, const LambStepParams& p, Inputs in, Outputs out) {
  const UpdateArrays a = update_arrays(in[0], in[1], {}, mixed ? &in[4] : nullptr, out[0]);
  run_update(ctx, a, in[0].dtype, LambStepRule{p, device_array(in[2]), device_array(in[3])});
}

// Keeps one history value per row; one block per row.
template <class T>
__global__ void group_adagrad_rows(int64_t rows, int64_t width, GroupAdagradParams p,
                                   const T* weight, const T* grad, T* history, T* out) {
  using C = AccOf<T>;
  const C bound = bound_of<C>(p.clip_gradient), rescale = static_cast<C>(p.rescale_grad);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    C squares = C(0);
    for (int64_t i = row * width + threadIdx.x; i < (row + 1) * width; i += blockDim.x) {
      const C g = limited(rescale * convert<C>(grad[i]), bound);
      squares += g * g;
    }
    const C sum = convert<C>(history[row]) + block_sum(squares) / static_cast<C>(width);
    const C rate = static_cast<C>(p.lr) / std::sqrt(sum + static_cast<C>(p.epsilon));
    __syncthreads();  // until all threads have read the old history
    if (threadIdx.x == 0) history[row] = convert<T>(sum);
    for (int64_t i = row * width + threadIdx.x; i < (row + 1) * width; i += blockDim.x)
      out[i] =
          convert<T>(convert<C>(weight[i]) - rate * limited(rescale * convert<C>(grad[i]), bound));
  }
}

void group_adagrad(KernelContext& ctx, const GroupAdagradParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const int64_t rows = in[0].shape[0], width = in[0].size() / rows;
  dispatch_float_elements("_contrib_group_adagrad_update", in[0].dtype, [&]<class T>(T) {
    launch(ctx, group_adagrad_rows<T>, blocks_per_task(ctx, rows), kThreads, rows, width, p,
           in[0].as<T>(), in[1].as<T>(), in[2].as<T>(), out[0].as<T>());
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  for_each_update([&]<class P, template <class> class R, size_t kStates, bool kPreloaded>(
                      const Update<P, R, kStates, kPreloaded>& u) {
    ops.cuda_kernel<&update<R, P, kStates, false>>(u.name);
    if (u.mixed_name) ops.cuda_kernel<&update<R, P, kStates, true>>(u.mixed_name);
  });
  ops.cuda_kernel<&lamb_phase1<false>>("lamb_update_phase1");
  ops.cuda_kernel<&lamb_phase1<true>>("mp_lamb_update_phase1");
  ops.cuda_kernel<&lamb_phase2<false>>("lamb_update_phase2");
  ops.cuda_kernel<&lamb_phase2<true>>("mp_lamb_update_phase2");
  ops.cuda_kernel<&group_adagrad>("_contrib_group_adagrad_update");
});

}  // namespace mxlite::cuda
