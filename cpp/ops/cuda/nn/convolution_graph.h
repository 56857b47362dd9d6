// A convolution as a graph of cuDNN's frontend. Needs no GPU: only its execution does. int8 is
// multiplied to int32, forward only and without bias, addend and relu.
#pragma once
// Serialised graphs are not used; without them the header compiles in half the time.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <memory>
#include <vector>

#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite::cuda {

// Numbers of the tensors that a caller binds to memory.
enum ConvolutionTensor : int64_t { kData = 1, kWeight, kOutput, kBias, kAddend, kSum, kSquareSum };

using ConvolutionResults = std::vector<std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>>;

// Returns what the nodes compute, in order: the last is the output, the others are never stored.
// The sums of a problem with sums, which are stored, are not among them.
ConvolutionResults make_convolution_nodes(cudnn_frontend::graph::Graph& graph,
                                          const ConvolutionProblem& problem);

}  // namespace mxlite::cuda
