// Builds the backward graph of a traced graph from the gradient rules of its operators.
#pragma once
#include <span>
#include <vector>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

struct BackwardGraph {
  // Inputs: the saved values, then the head gradients of `heads`. Parameters: those of the forward
  // graph. Outputs: the gradients.
  Graph graph;
  std::vector<ValueId> saved;  // values of the forward graph that gradient rules use
  std::vector<int> heads;      // outputs of the forward graph that have a gradient
  static constexpr int kNone = -1, kZero = -2;  // kNone: no gradient; kZero: the gradient is zero
  // Has an entry for each input of the forward graph, then for each parameter: the index of the
  // output of `graph` that is its gradient, or kNone or kZero.
  std::vector<int> grads;
  // First operator without a gradient rule through which a gradient should flow, or null.
  const OpSchema* not_differentiable = nullptr;
};

// `needs` says for each input, then for each parameter of `forward`, whether to compute its
// gradient. `heads` says for each output whether it has a gradient. `repeats`: recompute large
// results of some operators (see is_repeated).
BackwardGraph build_backward(const Graph& forward, std::span<const uint8_t> needs,
                             std::span<const uint8_t> heads, bool repeats);

}  // namespace mxlite::graph
