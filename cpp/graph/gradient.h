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
  std::vector<ValueId> saved;  // values of the forward graph that rules use
  std::vector<int> heads;      // outputs of the forward graph
  // For each input, then each parameter of forward: an output of `graph`, kNone or kZero.
  static constexpr int kNone = -1, kZero = -2;  // no gradient; zeros
  std::vector<int> grads;
  // First operator without a gradient, through which no gradient flows; null: none.
  const OpSchema* not_differentiable = nullptr;
};

// needs: by input, then parameter of forward. heads: by output, whether a gradient arrives.
// repeats: recompute large results of _batch_norm_relu, LayerNorm and GELU instead of keeping them.
BackwardGraph build_backward(const Graph& forward, std::span<const uint8_t> needs,
                             std::span<const uint8_t> heads, bool repeats);

}  // namespace mxlite::graph
