// The order in which the nodes of a symbol run, as a route for graph::walk.
#pragma once
#include <utility>
#include <vector>

#include "cpp/graph/trace.h"
#include "cpp/graph/walk.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

struct Steps {
  graph::Route route;
  std::vector<NodeRef> nodes;                                     // by step
  std::vector<std::pair<graph::Route::Slot, NodeRef>> variables;  // and where their values go
};
Steps steps_of(const Entries& heads);

// Names the nodes that the running trace records after a symbol's node, while it lives.
class NamedAfter {
 public:
  explicit NamedAfter(const Node& node);
  ~NamedAfter();
  NamedAfter(const NamedAfter&) = delete;
  NamedAfter& operator=(const NamedAfter&) = delete;

 private:
  graph::Trace* trace_;
  graph::Trace::Scope outer_;
};

// A graph that was traced with fixed shapes is wrong for others: throws a shape error if the
// variable is an input of such a graph and has another shape now.
void check_traced_shape(const Node& variable, const Shape& given);

}  // namespace mxlite::symbol
