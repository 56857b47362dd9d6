// A convolution as a graph of cuDNN's frontend. Building the graph needs no GPU. int8 operands give
// int32 results; they are supported only in forward without bias, addend and relu.
#pragma once
// Without serialized graphs, which are not used, the header compiles in half the time.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <memory>
#include <vector>

#include "cpp/ops/nn/convolution_problem.h"

namespace mxlite::cuda {

// Numbers of the tensors that a caller binds to memory.
enum ConvolutionTensor : int64_t { kData = 1, kWeight, kOutput, kBias, kAddend, kSum, kSquareSum };

using ConvolutionResults = std::vector<std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>>;

// Returns the results of the nodes in order: the last is the output, and the others are never
// stored. The sums of a problem with sums are stored, but are not among these results.
ConvolutionResults make_convolution_nodes(cudnn_frontend::graph::Graph& graph,
                                          const ConvolutionProblem& problem);

}  // namespace mxlite::cuda
