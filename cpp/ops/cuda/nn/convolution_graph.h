// A convolution as a graph of cuDNN's frontend. Only the execution needs a GPU. int8 operands give
// int32 results, only forward and without bias, addend and relu.
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

// Returns the results of the nodes in order: the last is the output, and the others are never
// stored. Does not include the sums, which are stored, of a problem with sums.
ConvolutionResults make_convolution_nodes(cudnn_frontend::graph::Graph& graph,
                                          const ConvolutionProblem& problem);

}  // namespace mxlite::cuda
