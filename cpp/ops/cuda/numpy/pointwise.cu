// Element-wise operators that only numpy mode has.
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/numpy/comparison.h"
#include "cpp/ops/pointwise/numpy_functors.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class F>
void numpy_binary(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  if constexpr (F::floating)
    run_floating_binary<F>(ctx, in[0], in[1], out[0]);
  else
    run_binary<F>(ctx, in[0], in[1], out[0]);
}

template <class F>
void comparison(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  const pointwise::ComparisonTypes types = pointwise::comparison_types(in[0].dtype, p.scalar);
  run_scalar<F>(ctx, in[0], p.scalar, false, out[0], types.compute, types.scalar);
}

void invert(KernelContext& ctx, const NoParams& p, Inputs in, Outputs out) {
  const bool negates = in[0].dtype == DType::kBool;
  (negates ? unary_kernel<pointwise::LogicalNot> : unary_kernel<pointwise::Invert>)(ctx, p, in,
                                                                                    out);
}

template <class... F>
void register_binary(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&numpy_binary<F>>(F::name, kStrided), ...);
}
template <class... F>
void register_comparisons(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&binary_kernel<F>>(pointwise::numpy_name(F::name), kStrided), ...);
  (ops.cuda_kernel<&comparison<F>>(pointwise::numpy_name(F::name) + "_scalar", kStrided), ...);
}
template <class... F>
void register_predicates(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.cuda_kernel<&unary_kernel<F>>(pointwise::numpy_name(F::name), kStrided), ...);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  register_binary(ops, pointwise::NumpyBinary{});
  register_comparisons(ops, pointwise::BinaryLogic{});
  register_predicates(ops, pointwise::NumpyPredicates{});
  ops.cuda_kernel<&invert>("_npi_bitwise_not", kStrided);
  ops.cuda_kernel<&unary_kernel<pointwise::RintHalfEven>>("_npi_rint", kStrided);
});

}  // namespace mxlite::cuda
