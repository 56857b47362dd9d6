// Base class of passes that join an addition with the node that computes one of its operands.
#pragma once
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {

class JoinAddition {
 public:
  explicit JoinAddition(const Graph& graph);
  virtual ~JoinAddition() = default;
  // Returns the graph with the joined additions.
  Graph run();

 protected:
  // Returns the operand (0 or 1) of addition `id` whose node is joined with the addition, or -1.
  virtual int find(int32_t id) const = 0;
  // Emits a node that computes `maker` and adds `other`. `other` is a value of the new graph.
  virtual ValueId join(const Node& maker, ValueId other) = 0;

  // Returns whether the value has one reader and its node is not yet joined with an addition.
  bool is_free(ValueId v) const;

  const Graph& graph_;
  Rewrite rewrite_;
  const std::vector<std::vector<int>> uses_;

 private:
  std::vector<int> side_of_;   // for each node: result of find
  std::vector<uint8_t> gone_;  // for each node: whether it is joined into a later node
};

}  // namespace mxlite::graph
