// Convolutions with cuDNN's graph API, or with plain loops if cuDNN has no plan. Plans are chosen
// once per problem, device and process. The results of tuning are stored in a file for later
// processes.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite::cuda {

// The direction of the problem determines which operand is written. int8 operands have int32
// outputs.
struct ConvolutionOperands {
  void *data = nullptr, *weight = nullptr, *output = nullptr;
  void *bias = nullptr, *addend = nullptr;  // read if the problem has them
  // Memory of problem.workspace_bytes bytes for cuDNN. If null, the call's scratch memory is used,
  // which then must not contain operands.
  void* workspace = nullptr;
  // (2, channels of the output), written if the problem has sums: the sums of the channels, then of
  // their squares.
  float* sums = nullptr;
};

// Supports every type and alignment: uses cuDNN if it has a plan, otherwise loops
// (direct_convolution).
void run_convolution(KernelContext& ctx, ConvolutionProblem problem,
                     const ConvolutionOperands& operands);

// Runs a forward problem in cuDNN and writes operands.sums. Returns false without running anything
// if cuDNN has no engine that sums channels. cuDNN's documentation requires float16, channels-last,
// addresses aligned to 16 bytes, and compute capability 8.0 or more, except 8.9.
bool run_convolution_with_sums(KernelContext& ctx, ConvolutionProblem problem,
                               const ConvolutionOperands& operands);

// Returns false, and runs nothing, if cuDNN has no plan for the problem. Measures on the operands
// if the problem asks for tuning. If cuDNN has no engine for the fused problem, another kernel then
// applies bias, addend and relu.
bool run_planned_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                             const ConvolutionOperands& operands);

}  // namespace mxlite::cuda
