// The backward graph of a traced graph, made with the gradient rules of its operators.
#pragma once
#include <span>
#include <vector>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

struct BackwardGraph {
  // Inputs: the saved values, then the head gradients that arrived. Parameters: those of the
  // forward graph. Outputs: the gradients.
  Graph graph;
  std::vector<ValueId> saved;  // values of the forward graph that the rules asked for
  std::vector<int> heads;      // outputs of the forward graph
  std::vector<int>
      grads;  // by input, then parameter of forward: output of `graph`, -1: no gradient
};

// needs: by input, then parameter of forward. heads: by output, does a gradient arrive?
// strict: an operator on the way that is not differentiable is an error; otherwise nothing flows
// through it. repeat_norms: large results of _batch_norm_relu are computed again instead of kept.
BackwardGraph build_backward(const Graph& forward, std::span<const uint8_t> needs,
                             std::span<const uint8_t> heads, bool strict, bool repeat_norms);

}  // namespace mxlite::graph
