// Convolutions by cuDNN's graph API, and by plain loops where cuDNN has no plan. Plans are chosen
// once per problem, device and process; what tuning chose is kept in a file for the next process.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite::cuda {

// The direction of the problem decides which operand is written. int8 operands have int32 outputs.
struct ConvolutionOperands {
  void *data = nullptr, *weight = nullptr, *output = nullptr;
  void *bias = nullptr, *addend = nullptr;  // read where the problem has them
  // Memory for cuDNN's own use, problem.workspace_bytes of it. Null: the call's scratch memory,
  // which then holds no operand.
  void* workspace = nullptr;
  // (2, channels of the output), written where the problem has sums: those of the channels, then
  // those of their squares.
  float* sums = nullptr;
};

// Runs every type and alignment: in cuDNN where it has a plan, else in loops (direct_convolution).
void run_convolution(KernelContext& ctx, ConvolutionProblem problem,
                     const ConvolutionOperands& operands);

// Runs a forward problem in cuDNN and writes operands.sums. Returns false, and nothing runs, where
// cuDNN has no engine that adds up channels. Its documentation names float16, channels last,
// addresses of whole 16 bytes, and compute capability 8.0 or more, but not 8.9.
bool run_convolution_with_sums(KernelContext& ctx, ConvolutionProblem problem,
                               const ConvolutionOperands& operands);

// Returns false, and runs nothing, if cuDNN has no plan for the problem. Measures on the operands
// if the problem asks for tuning. If cuDNN has no engine for the fused problem, another kernel then
// applies bias, addend and relu.
bool run_planned_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                             const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
