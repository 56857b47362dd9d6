// Convolution followed by BatchNorm. If cuDNN has an engine for it, the convolution also computes
// the sums of each channel; otherwise BatchNorm reads the convolution's result to compute them.
#include "cpp/ops/nn/convolution_batch_norm.h"

#include "cpp/ops/cuda/nn/batch_norm.h"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void convolution_batch_norm(KernelContext& ctx, const ConvolutionBatchNormParams& p, Inputs in,
                            Outputs out) {
  const TensorRef &convolved = out[3], &sums = out[4];
  if (convolved.size() == 0) return;
  ConvolutionProblem problem = describe_convolution(ConvolutionDirection::kForward, p, in[0].shape,
                                                    convolved.shape, in[0].dtype, false);
  ConvolutionOperands operands{in[0].data, in[1].data, convolved.data};
  operands.sums = sums.as<float>();
  const bool has_sums = run_convolution_with_sums(ctx, problem, operands);
  if (!has_sums) run_convolution(ctx, problem, operands);

  BatchNormCall call;
  call.blocks = channel_blocks(convolved.shape, -1);
  call.dtype = convolved.dtype;
  call.stats_dtype = in[2].dtype;
  call.eps = p.eps;
  call.momentum = static_cast<double>(p.momentum);
  call.fix_gamma = p.fix_gamma;
  call.batch_stats = true;
  call.relu = p.relu;
  call.data = convolved.data;
  call.gamma = in[2].data;
  call.beta = in[3].data;
  call.running_mean = in[4].data;
  call.running_var = in[5].data;
  if (p.added) {
    call.addend = in[6].data;
    call.relu_bits = out[5].as<uint8_t>();
  }
  call.output = out[0].data;
  call.mean = out[1].data;
  call.inv_std = out[2].data;
  if (has_sums) call.known_sums = operands.sums;
  batch_norm_forward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::convolution_batch_norm>("_convolution_batch_norm");
});

}  // namespace mxlite::cuda
