// Updates the rows that a row-sparse gradient contains, with one block per row. Rows that occur
// twice are summed first.
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/optimizer/update.cuh"
#include "cpp/ops/cuda/sparse/rows.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace optimizer;  // NOLINT: this file uses its rules and parameters

struct RowUpdate {
  RowOrder order;
  int64_t rows, width;
  DeviceArray weight, values, states[kMaxStates];
};

template <class C, class Rule>
__global__ void __launch_bounds__(kThreads)
    update_rows(const __grid_constant__ RowUpdate u, const __grid_constant__ Rule known) {
  const auto& rule = known.template make<C>({}, 0);
  for (int64_t first = blockIdx.x; first < u.order.count; first += gridDim.x) {
    if (!begins_run(u.order, first, u.rows)) continue;
    for (int64_t k = threadIdx.x; k < u.width; k += blockDim.x) {
      const int64_t at = u.order.row[first] * u.width + k;
      const C grad = sum_run<C>(u.order, first, u.values.data, u.values.dtype, u.width, k);
      const C weight = load_as<C>(u.weight.data, u.weight.dtype, at);
      C states[kMaxStates], result;
#pragma unroll
      for (int s = 0; s < kMaxStates; ++s)
        states[s] = u.states[s].data ? load_as<C>(u.states[s].data, u.states[s].dtype, at) : C(0);
      Block<C> b{&weight, &grad, {&states[0], &states[1], &states[2]}, &result, 1};
      rule(b);
#pragma unroll
      for (int s = 0; s < kMaxStates; ++s)
        if (u.states[s].data) store_as<C>(u.states[s].data, u.states[s].dtype, at, states[s]);
      store_as<C>(u.weight.data, u.weight.dtype, at, result);
    }
  }
}

// Inputs: weight, values and row numbers of the gradient, states. The weight is copied first unless
// it is the output.
RowUpdate row_update(KernelContext& ctx, Inputs in, Outputs out) {
  RowUpdate u{};
  u.rows = in[0].shape[0];
  u.width = in[0].shape.product(1, in[0].shape.ndim());
  u.weight = device_array(out[0]);
  u.values = device_array(in[1]);
  for (size_t s = 3; s < in.size(); ++s) u.states[s - 3] = device_array(in[s]);
  copy_bytes(ctx, out[0].data, in[0].data, in[0].bytes());
  u.order = order_rows(ctx, in[2].as<int64_t>(), in[2].shape[0], u.rows);
  return u;
}
bool is_empty(const RowUpdate& u) { return u.order.count == 0 || u.width == 0; }

template <template <class> class Rule, class P>
void update(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const RowUpdate u = row_update(ctx, in, out);
  if (is_empty(u)) return;
  using Known = KnownRule<Rule>;
  const Known rule{Rule<float>(p), Rule<double>(p)};
  launch(ctx,
         in[0].dtype == DType::kFloat64 ? update_rows<double, Known> : update_rows<float, Known>,
         blocks_per_task(ctx, u.order.count), threads_for_columns(u.width), u, rule);
}

// Keeps one history value per row.
template <class C>
__global__ void __launch_bounds__(kThreads)
    group_adagrad_rows(const __grid_constant__ RowUpdate u, GroupAdagradParams p) {
  const C bound = bound_of<C>(p.clip_gradient), rescale = static_cast<C>(p.rescale_grad);
  const DeviceArray& history = u.states[0];
  for (int64_t first = blockIdx.x; first < u.order.count; first += gridDim.x) {
    if (!begins_run(u.order, first, u.rows)) continue;
    const int64_t row = u.order.row[first];
    const auto gradient = [&](int64_t k) {
      const C sum = sum_run<C>(u.order, first, u.values.data, u.values.dtype, u.width, k);
      return limited(rescale * sum, bound);
    };
    C squares = C(0);
    for (int64_t k = threadIdx.x; k < u.width; k += blockDim.x) {
      const C g = gradient(k);
      squares += g * g;
    }
    const C sum =
        load_as<C>(history.data, history.dtype, row) + block_sum(squares) / static_cast<C>(u.width);
    const C rate = static_cast<C>(p.lr) / std::sqrt(sum + static_cast<C>(p.epsilon));
    __syncthreads();  // until all threads have read the old history
    if (threadIdx.x == 0) store_as<C>(history.data, history.dtype, row, sum);
    for (int64_t k = threadIdx.x; k < u.width; k += blockDim.x) {
      const int64_t at = row * u.width + k;
      const C weight = load_as<C>(u.weight.data, u.weight.dtype, at);
      store_as<C>(u.weight.data, u.weight.dtype, at, weight - rate * gradient(k));
    }
  }
}

void group_adagrad(KernelContext& ctx, const GroupAdagradParams& p, Inputs in, Outputs out) {
  const RowUpdate u = row_update(ctx, in, out);
  if (is_empty(u)) return;
  launch(ctx,
         in[0].dtype == DType::kFloat64 ? group_adagrad_rows<double> : group_adagrad_rows<float>,
         blocks_per_task(ctx, u.order.count), threads_for_columns(u.width), u, p);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&update<Sgd, SgdParams>>("_rows_sgd_update");
  ops.cuda_kernel<&update<SgdMom, SgdMomParams>>("_rows_sgd_mom_update");
  ops.cuda_kernel<&update<Adam, AdamParams>>("_rows_adam_update");
  ops.cuda_kernel<&update<Ftrl, FtrlParams>>("_rows_ftrl_update");
  ops.cuda_kernel<&update<Adagrad, AdagradParams>>("_rows_adagrad_update");
  ops.cuda_kernel<&group_adagrad>("_rows_group_adagrad_update");
});

}  // namespace mxlite::cuda
