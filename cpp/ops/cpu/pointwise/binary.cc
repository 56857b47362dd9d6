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
  ops.kernel<&binary_kernel<Add>>("elemwise_add", DeviceType::kCPU, kStrided);
  ops.kernel<&binary_kernel<Sub>>("elemwise_sub", DeviceType::kCPU, kStrided);
  ops.kernel<&binary_kernel<Mul>>("elemwise_mul", DeviceType::kCPU, kStrided);
  ops.kernel<&binary_kernel<Div>>("elemwise_div", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Add, false>>("_plus_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Sub, false>>("_minus_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Sub, true>>("_rminus_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Mul, false>>("_mul_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Div, false>>("_div_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Div, true>>("_rdiv_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Mod, false>>("_mod_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Mod, true>>("_rmod_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&multiply_or_root>("_power_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Power, true>>("_rpower_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Maximum, false>>("_maximum_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Minimum, false>>("_minimum_scalar", DeviceType::kCPU, kStrided);
  ops.kernel<&scalar_kernel<Hypot, false>>("_hypot_scalar", DeviceType::kCPU, kStrided);
});

}  // namespace mxlite
