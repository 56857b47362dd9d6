#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/pointwise/activation_functors.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class F>
void floating_unary(KernelContext& ctx, Inputs in, Outputs out) {
  if (pointwise::compute_for_math(in[0].dtype) == Compute::kFloat)
    run_unary<F, float>(ctx, in[0], out[0]);
  else
    run_unary<F, double>(ctx, in[0], out[0]);
}

void activation(KernelContext& ctx, const ActivationParams& p, Inputs in, Outputs out) {
  switch (p.act_type) {
    case ActivationType::kRelu:
      return dispatch_compute(pointwise::compute_for_arithmetic(in[0].dtype), [&]<class C>(C) {
        run_unary<pointwise::Relu, C>(ctx, in[0], out[0]);
      });
    case ActivationType::kSigmoid:
      return floating_unary<pointwise::Sigmoid>(ctx, in, out);
    case ActivationType::kTanh:
      return floating_unary<pointwise::Tanh>(ctx, in, out);
    case ActivationType::kSoftrelu:
      return floating_unary<pointwise::Softrelu>(ctx, in, out);
    case ActivationType::kSoftsign:
      return floating_unary<pointwise::Softsign>(ctx, in, out);
  }
}

void activation_backward(KernelContext& ctx, const ActivationParams& p, Inputs in, Outputs out) {
  switch (p.act_type) {
    case ActivationType::kRelu:
      return run_binary<pointwise::ReluSlope>(ctx, in[0], in[1], out[0]);
    case ActivationType::kSigmoid:
      return run_floating_binary<pointwise::SigmoidBackward>(ctx, in[0], in[1], out[0]);
    case ActivationType::kTanh:
      return run_floating_binary<pointwise::TanhBackward>(ctx, in[0], in[1], out[0]);
    case ActivationType::kSoftrelu:
      return run_floating_binary<pointwise::SoftreluBackward>(ctx, in[0], in[1], out[0]);
    case ActivationType::kSoftsign:
      return run_floating_binary<pointwise::SoftsignBackward>(ctx, in[0], in[1], out[0]);
  }
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&activation>("Activation", kStrided);
  ops.cuda_kernel<&activation_backward>("_activation_backward", kStrided);
});

}  // namespace mxlite::cuda
