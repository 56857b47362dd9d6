// Builds the backward graph of a traced graph from the gradient rules of its operators.
#pragma once
#include <span>
#include <vector>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

struct BackwardGraph {
  // Inputs: the saved values, followed by the head gradients of `heads`. Parameters: the parameters
  // of the forward graph. Outputs: the gradients.
  Graph graph;
  std::vector<ValueId> saved;  // values of the forward graph that gradient rules use
  std::vector<int> heads;      // outputs of the forward graph that have a gradient
  static constexpr int kNone = -1, kZero = -2;  // kNone: no gradient; kZero: the gradient is zero
  // Has an entry for each input of the forward graph, followed by an entry for each parameter. The
  // entry is kNone, kZero, or the index of the gradient among the outputs of `graph`.
  std::vector<int> grads;
  // The first operator without a gradient rule that a gradient would have to pass through, or null.
  const OpSchema* not_differentiable = nullptr;
};

// `needs` has an entry for each input of `forward`, followed by an entry for each parameter:
// whether to compute its gradient. `heads` says for each output whether it has a gradient. If
// `repeats` is true, backward recomputes large results of some operators (see is_repeated).
BackwardGraph build_backward(const Graph& forward, std::span<const uint8_t> needs,
                             std::span<const uint8_t> heads, bool repeats);

}  // namespace mxlite::graph
