// Convolutions by cuDNN's graph API. Plans are chosen once per problem, device and process; what
// tuning chose is kept in a file for the next process.
#pragma once
#include <memory>

#include "cpp/ops/cuda/context.h"
#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite::cuda {

// The problem's direction decides which of them is written.
struct ConvolutionOperands {
  void *data = nullptr, *weight = nullptr, *output = nullptr;
  void *bias = nullptr, *addend = nullptr;  // forward: read where the problem has them
};

class ConvolutionPlan;

// The plan of a problem; throws kNotSupported, with cuDNN's reason, where there is none. Measures
// on the operands if the problem asks for tuning: the output is then undefined until run.
std::shared_ptr<const ConvolutionPlan> convolution_plan(KernelContext& ctx,
                                                        const ConvolutionProblem& problem,
                                                        const ConvolutionOperands& operands);

// Finds the plan and runs it. Where cuDNN has no engine for the fused problem, bias, addend and
// relu follow in a kernel of their own.
void run_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                     const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
