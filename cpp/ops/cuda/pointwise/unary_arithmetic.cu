// Element-wise functions for all dtypes, and element-wise functions with parameters.
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void clip(KernelContext& ctx, const ClipParams& p, Inputs in, Outputs out) {
  const DType dtype = in[0].dtype;
  const Compute c = pointwise::compute_for_arithmetic(dtype);
  dispatch_compute(c, [&]<class C>(C) {
    run_unary<pointwise::Clip, C>(ctx, in[0], out[0], scalar_of<C>(p.a_min.within(dtype), dtype, c),
                                  scalar_of<C>(p.a_max.within(dtype), dtype, c));
  });
}

template <class F>
void with_args(KernelContext& ctx, double first, double second, Inputs in, Outputs out) {
  if (pointwise::compute_for_math(in[0].dtype) == Compute::kFloat)
    run_unary<F, float>(ctx, in[0], out[0], static_cast<float>(first), static_cast<float>(second));
  else
    run_unary<F, double>(ctx, in[0], out[0], first, second);
}

void smooth_l1(KernelContext& ctx, const SmoothL1Params& p, Inputs in, Outputs out) {
  with_args<pointwise::SmoothL1>(ctx, p.scalar * p.scalar, 0, in, out);
}
void hard_sigmoid(KernelContext& ctx, const HardSigmoidParams& p, Inputs in, Outputs out) {
  with_args<pointwise::HardSigmoid>(ctx, p.alpha, p.beta, in, out);
}

void gradientmultiplier(KernelContext& ctx, const ScalarParams&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  register_unary_kernels(ops, pointwise::UnaryArithmetic{});
  ops.cuda_kernel<&clip>("clip", kStrided);
  ops.cuda_kernel<&smooth_l1>("smooth_l1", kStrided);
  ops.cuda_kernel<&hard_sigmoid>("hard_sigmoid", kStrided);
  // These operators differ from their plain forms only in the gradient.
  ops.cuda_kernel<&unary_kernel<pointwise::Round>>("_contrib_round_ste", kStrided);
  ops.cuda_kernel<&unary_kernel<pointwise::Sign>>("_contrib_sign_ste", kStrided);
  ops.cuda_kernel<&gradientmultiplier>("_contrib_gradientmultiplier");
});

}  // namespace mxlite::cuda
