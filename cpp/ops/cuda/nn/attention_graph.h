// Dot-product attention as a graph of cuDNN's frontend. Building the graph needs no GPU.
#pragma once
// Without serialized graphs, which are not used, the header compiles in half the time.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "cpp/ops/nn/attention_problem.h"

namespace mxlite::cuda {

// Adds the node of the problem, whose tensors have the numbers of AttentionTensor.
void make_attention_nodes(cudnn_frontend::graph::Graph& graph, const AttentionProblem& problem);

}  // namespace mxlite::cuda
