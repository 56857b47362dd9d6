// Comparisons and logic, allclose, and the backward functions that have kernels.
#include "cpp/ops/contrib/allclose.h"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/pointwise/nan_logic.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class F>
void scalar_kernel(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  const auto [result, scalar] = pointwise::logic_scalar<F>(p.scalar, out[0].dtype);
  if (!result) return run_scalar<F>(ctx, in[0], scalar, false, out[0]);
  (*result ? run_binary<pointwise::Equal> : run_binary<pointwise::NotEqual>)(ctx, in[0], in[0],
                                                                             out[0]);
}

template <class... F>
void register_scalar_logic(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&scalar_kernel<F>>(std::string("_") + F::name + "_scalar", kStrided), ...);
}

// Gradients are of floating type.
template <class F>
void backward_kernel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  run_floating_binary<F>(ctx, in[0], in[1], out[0]);
}

template <class... F>
void register_backward_kernels(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&backward_kernel<F>>(F::name, kStrided), ...);
}

__global__ void set_true(uint8_t* out) { *out = 1; }

__global__ void clear_if_far(int64_t n, AllcloseParams p, const void* left, const void* right,
                             DType dtype, uint8_t* out) {
  bool far = false;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double a = load_any<double>(left, dtype, i), b = load_any<double>(right, dtype, i);
    if (a == b) continue;  // also for infinities of the same sign
    if (a != a || b != b)
      far |= !(p.equal_nan && a != a && b != b);
    else
      far |= !(b - b == 0 && fabs(a - b) <= p.atol + p.rtol * fabs(b));
  }
  if (far) *out = 0;  // all threads that write store the same value
}

void allclose(KernelContext& ctx, const AllcloseParams& p, Inputs in, Outputs out) {
  launch(ctx, set_true, 1, 1, out[0].as<uint8_t>());
  launch_items(ctx, clear_if_far, in[0].size(), in[0].size(), p, in[0].data, in[1].data,
               in[0].dtype, out[0].as<uint8_t>());
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  register_binary_kernels(ops, pointwise::BinaryLogic{});
  register_scalar_logic(ops, pointwise::BinaryLogic{});
  register_backward_kernels(ops, pointwise::BinaryBackward{});
  ops.cuda_kernel<&allclose>("_contrib_allclose");
});

}  // namespace mxlite::cuda
