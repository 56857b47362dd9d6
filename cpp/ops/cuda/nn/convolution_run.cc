#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/cuda/nn/direct_convolution.h"

namespace mxlite::cuda {

void run_convolution(KernelContext& ctx, ConvolutionProblem problem, const ConvolutionOperands& o) {
  problem.alignment = common_alignment({o.data, o.weight, o.output, o.bias, o.addend});
  const bool by_cudnn = problem.dtype == DType::kFloat32 || is_half(problem.dtype);
  if (!by_cudnn || !run_planned_convolution(ctx, problem, o)) direct_convolution(ctx, problem, o);
}

bool run_convolution_with_sums(KernelContext& ctx, ConvolutionProblem problem,
                               const ConvolutionOperands& o) {
  problem.sums = true;
  problem.alignment = common_alignment({o.data, o.weight, o.output, o.sums});
  return problem.alignment == ConvolutionProblem::kFullAlignment &&
         run_planned_convolution(ctx, problem, o);
}

}  // namespace mxlite::cuda
