// Registers functors of two values under their operators' names.
#pragma once
#include <string>

#include "cpp/ops/cpu/pointwise/tables.h"
#include "cpp/ops/pointwise/params.h"

namespace mxlite::pointwise {

template <class F, bool scalar_left>
void scalar_kernel(KernelContext&, const ScalarParams& p, Inputs in, Outputs out) {
  const DType dtype = out[0].dtype;
  run_scalar(kBinary<F>, compute_for_arithmetic(dtype), in[0], p.scalar, dtype, scalar_left,
             out[0]);
}

// Has only loops in float and double, because these functors compute in floating types.
template <class F>
inline constexpr BinaryTable kFloatingBinary = {{&binary_loop<F, float>, &binary_loop<F, double>}};

template <class F>
void floating_binary_kernel(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  run_binary(kFloatingBinary<F>, compute_for_math(in[0].dtype), in[0], in[1], out[0]);
}

template <class... F>
void register_binary_kernels(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&binary_kernel<F>>(std::string("broadcast_") + F::name, kStrided), ...);
}

}  // namespace mxlite::pointwise
