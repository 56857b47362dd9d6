// Functions of two arrays, and of an array and a scalar.
#include "cpp/ops/cpu/pointwise/binary.h"

#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {
namespace {

void multiply_or_root(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  const Compute c = compute_for_arithmetic(out[0].dtype);
  if (p.scalar == 2.0)
    run_binary(kBinary<Mul>, c, in[0], in[0], out[0]);
  else if (p.scalar == 0.5 && is_floating(in[0].dtype))
    run_unary(kUnary<Sqrt>, c, in[0], out[0]);
  else
    scalar_kernel<Power, false>(ctx, p, in, out);
}

}  // namespace
}  // namespace pointwise

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  register_binary_kernels(ops, BinaryArithmetic{});
  ops.cpu_kernel<&binary_kernel<Add>>("elemwise_add", kStrided);
  ops.cpu_kernel<&binary_kernel<Sub>>("elemwise_sub", kStrided);
  ops.cpu_kernel<&binary_kernel<Mul>>("elemwise_mul", kStrided);
  ops.cpu_kernel<&binary_kernel<Div>>("elemwise_div", kStrided);
  ops.cpu_kernel<&scalar_kernel<Add, false>>("_plus_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Sub, false>>("_minus_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Sub, true>>("_rminus_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Mul, false>>("_mul_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Div, false>>("_div_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Div, true>>("_rdiv_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Mod, false>>("_mod_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Mod, true>>("_rmod_scalar", kStrided);
  ops.cpu_kernel<&multiply_or_root>("_power_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Power, true>>("_rpower_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Maximum, false>>("_maximum_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Minimum, false>>("_minimum_scalar", kStrided);
  ops.cpu_kernel<&scalar_kernel<Hypot, false>>("_hypot_scalar", kStrided);
});

}  // namespace mxlite
