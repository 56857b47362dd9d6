// Splits a graph at its host operators: runs of other nodes become graphs of their own. The
// order is that of the trace, so writes into parameters keep their place.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/cached_graph.h"
#include "cpp/graph/host_op.h"

namespace mxlite::graph {

struct Part {
  IntrusivePtr<CachedGraph> graph;  // null: `host` is called
  const HostOp* host = nullptr;     // owned by the whole graph's node
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<int> parameters;  // positions of `graph`'s parameters in the whole graph
  std::string name;             // name of the host operator's node
};

struct Split {
  Graph whole;
  std::vector<Part> parts;
};

bool has_host_op(const Graph& graph);
std::shared_ptr<const Split> split_at_host_ops(Graph graph);
// Parameters of the whole graph, then the captured arrays.
void set_params(const Split& split, const ArrayList& parameters);

// Compiles a graph that was traced before, once per signature. is_part: see CachedGraph.
IntrusivePtr<CachedGraph> cached_graph_of(Graph graph, bool is_part);

}  // namespace mxlite::graph
