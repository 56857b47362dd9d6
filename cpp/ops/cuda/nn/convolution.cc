// Convolution and Deconvolution.
#include "cpp/ops/nn/convolution.h"

#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/cuda/nn/deconvolution.h"
#include "cpp/ops/cuda/reduce/channel_sum.h"
#include "cpp/ops/nn/deconvolution.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using Direction = ConvolutionDirection;

void convolution(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  ConvolutionProblem problem =
      describe_convolution(Direction::kForward, p, in[0].shape, out[0].shape, in[0].dtype, false);
  problem.bias = !p.no_bias;
  run_convolution(ctx, problem,
                  {in[0].data, in[1].data, out[0].data, p.no_bias ? nullptr : in[2].data});
}

void backward_data(KernelContext& ctx, const ConvolutionDataGradParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0) return zero_bytes(ctx, out[0].data, out[0].bytes());
  run_convolution(ctx,
                  describe_convolution(Direction::kBackwardData, p, out[0].shape, in[0].shape,
                                       in[0].dtype, false),
                  {out[0].data, in[1].data, in[0].data});
}

void backward_weight(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  if (in[0].size() == 0) {
    for (const TensorRef& t : out) zero_bytes(ctx, t.data, t.bytes());
    return;
  }
  run_convolution(ctx,
                  describe_convolution(Direction::kBackwardWeight, p, in[1].shape, in[0].shape,
                                       in[0].dtype, false),
                  {in[1].data, out[0].data, in[0].data});
  if (out.size() > 1)
    channel_sum(ctx, in[0], channel_axis(in[0].shape.ndim(), p.channels_last()), out[1]);
}

}  // namespace

void deconvolution(KernelContext& ctx, const DeconvolutionParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const ConvolutionParams conv = transposed_convolution(p, in[0].shape);
  ConvolutionProblem problem = describe_convolution(Direction::kBackwardData, conv, out[0].shape,
                                                    in[0].shape, in[0].dtype, false);
  problem.bias = in.size() > 2;
  run_convolution(ctx, problem,
                  {out[0].data, in[1].data, in[0].data, problem.bias ? in[2].data : nullptr});
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::convolution>("Convolution");
  ops.cuda_kernel<&cuda::backward_data>("_convolution_backward_data");
  ops.cuda_kernel<&cuda::backward_weight>("_convolution_backward_weight");
  ops.cuda_kernel<&cuda::deconvolution>("Deconvolution");
});

}  // namespace mxlite::cuda
