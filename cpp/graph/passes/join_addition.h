// The walk of passes that join an addition with the node that made one of its operands.
#pragma once
#include <vector>

#include "cpp/graph/graph.h"
#include "cpp/graph/rewrite.h"

namespace mxlite::graph {

class JoinAddition {
 public:
  explicit JoinAddition(const Graph& graph);
  virtual ~JoinAddition() = default;
  // Returns the graph in which each addition that has such an operand is replaced.
  Graph run();

 protected:
  // Returns the operand, 0 or 1, of node `id` whose maker is joined with it; -1: none.
  virtual int find(int32_t id) const = 0;
  // Adds the node that does the work of `maker` and adds `other`, a value of the new graph.
  virtual ValueId join(const Node& maker, ValueId other) = 0;

  // Returns whether only one node reads the value, which no addition has been joined with.
  bool is_free(ValueId v) const;

  const Graph& graph_;
  Rewrite rewrite_;
  const std::vector<std::vector<int>> uses_;

 private:
  std::vector<int> side_of_;   // by addition: the operand whose maker is joined with it, or -1
  std::vector<uint8_t> gone_;  // part of a later node
};

}  // namespace mxlite::graph
