// Comparisons, logic, and backward functions that have kernels.
#include <array>

#include "cpp/ops/cpu/pointwise/binary.h"
#include "cpp/ops/pointwise/nan_logic.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {
namespace {

template <class F>
void logic_kernel(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  const auto [result, scalar] = logic_scalar<F>(p.scalar, out[0].dtype);
  if (!result) return scalar_kernel<F, false>(ctx, {.scalar = scalar}, in, out);
  const std::array twice = {in[0], in[0]};
  (*result ? binary_kernel<Equal> : binary_kernel<NotEqual>)(ctx, NoParams{}, twice, out);
}

template <class... F>
void register_scalar_logic(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&logic_kernel<F>>(std::string("_") + F::name + "_scalar", kStrided), ...);
}

// Gradients have a floating type.
template <class... F>
void register_backward_kernels(OpRegistry& ops, FunctorList<F...>) {
  (ops.cpu_kernel<&floating_binary_kernel<F>>(F::name, kStrided), ...);
}

}  // namespace
}  // namespace pointwise

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  register_binary_kernels(ops, BinaryLogic{});
  register_scalar_logic(ops, BinaryLogic{});
  register_backward_kernels(ops, BinaryBackward{});
});

}  // namespace mxlite
