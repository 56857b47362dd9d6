// Functions of two arrays, and of an array and a scalar.
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class F, bool scalar_left>
void scalar_kernel(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  run_scalar<F>(ctx, in[0], p.scalar, scalar_left, out[0]);
}

void power_scalar(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  if (p.scalar == 2.0)
    run_binary<pointwise::Mul>(ctx, in[0], in[0], out[0]);
  else
    run_scalar<pointwise::Power>(ctx, in[0], p.scalar, false, out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace cuda;       // NOLINT: this folder's own names
  using namespace pointwise;  // NOLINT: functors
  register_binary_kernels(ops, BinaryArithmetic{});
  ops.cuda_kernel<&binary_kernel<Add>>("elemwise_add", kStrided);
  ops.cuda_kernel<&binary_kernel<Sub>>("elemwise_sub", kStrided);
  ops.cuda_kernel<&binary_kernel<Mul>>("elemwise_mul", kStrided);
  ops.cuda_kernel<&binary_kernel<Div>>("elemwise_div", kStrided);
  ops.cuda_kernel<&scalar_kernel<Add, false>>("_plus_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Sub, false>>("_minus_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Sub, true>>("_rminus_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Mul, false>>("_mul_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Div, false>>("_div_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Div, true>>("_rdiv_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Mod, false>>("_mod_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Mod, true>>("_rmod_scalar", kStrided);
  ops.cuda_kernel<&power_scalar>("_power_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Power, true>>("_rpower_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Maximum, false>>("_maximum_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Minimum, false>>("_minimum_scalar", kStrided);
  ops.cuda_kernel<&scalar_kernel<Hypot, false>>("_hypot_scalar", kStrided);
});

}  // namespace mxlite::cuda
