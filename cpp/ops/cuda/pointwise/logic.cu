// Comparisons and logic, and the backward functions that have kernels.
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/pointwise/params.h"

namespace mxlite {
namespace cuda {
namespace {

template <class F>
void scalar_kernel(KernelContext& ctx, const ScalarParams& p, Inputs in, Outputs out) {
  run_scalar<F>(ctx, in[0], p.scalar, false, out[0]);
}

template <class... F>
void register_scalar_logic(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.kernel<&scalar_kernel<F>>(std::string("_") + F::name + "_scalar", DeviceType::kCUDA,
                                 kStrided),
   ...);
}

// Gradients are of floating type.
template <class F>
void backward_kernel(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  run_floating_binary<F>(ctx, in[0], in[1], out[0]);
}

template <class... F>
void register_backward_kernels(OpRegistry& ops, pointwise::FunctorList<F...>) {
  (ops.kernel<&backward_kernel<F>>(F::name, DeviceType::kCUDA, kStrided), ...);
}

}  // namespace

}  // namespace cuda

void register_logic_cuda(OpRegistry& ops) {
  using namespace cuda;  // NOLINT: this folder's own names
  register_binary_kernels(ops, pointwise::BinaryLogic{});
  register_scalar_logic(ops, pointwise::BinaryLogic{});
  register_backward_kernels(ops, pointwise::BinaryBackward{});
}

}  // namespace mxlite
