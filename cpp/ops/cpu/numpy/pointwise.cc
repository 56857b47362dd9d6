// Element-wise operators that only numpy mode has.
#include "cpp/ops/cpu/pointwise/binary.h"
#include "cpp/ops/numpy/comparison.h"
#include "cpp/ops/pointwise/numpy_functors.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {
namespace {

template <class F>
void numpy_binary(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  if constexpr (F::floating)
    floating_binary_kernel<F>(ctx, p, in, out);
  else
    binary_kernel<F>(ctx, p, in, out);
}

template <class F>
void comparison(KernelContext&, const ScalarParams& p, Inputs in, Outputs out) {
  const ComparisonTypes types = comparison_types(in[0].dtype, p.scalar);
  run_scalar(kBinary<F>, types.compute, in[0], p.scalar, types.scalar, false, out[0]);
}

void invert(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  const bool negates = in[0].dtype == DType::kBool;
  (negates ? unary_kernel<LogicalNot> : unary_kernel<Invert>)(ctx, p, in, out);
}

template <class... F>
void register_binary(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&numpy_binary<F>>(F::name, kStrided), ...);
}
template <class... F>
void register_comparisons(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&binary_kernel<F>>(numpy_name(F::name), kStrided), ...);
  (ops.cpu_kernel<&comparison<F>>(numpy_name(F::name) + "_scalar", kStrided), ...);
}
template <class... F>
void register_predicates(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&unary_kernel<F>>(numpy_name(F::name), kStrided), ...);
}

}  // namespace
}  // namespace pointwise

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  register_binary(ops, NumpyBinary{});
  register_comparisons(ops, BinaryLogic{});
  register_predicates(ops, NumpyPredicates{});
  ops.cpu_kernel<&invert>("_npi_bitwise_not", kStrided);
  ops.cpu_kernel<&unary_kernel<RintHalfEven>>("_npi_rint", kStrided);
});

}  // namespace mxlite
