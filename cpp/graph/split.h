// Splits a graph at its host operators and collectives: runs of other nodes become graphs of their
// own. The order is that of the trace, so writes into parameters keep their place, and all ranks of
// a job make the same calls in the same order: passes see no collective.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/cached_graph.h"
#include "cpp/graph/host_op.h"

namespace mxlite::graph {

struct Part {
  IntrusivePtr<CachedGraph> graph;   // null: `host` or `collective` is called
  const HostOp* host = nullptr;      // owned by the whole graph's node
  const Node* collective = nullptr;  // Node of the whole graph; its operator is called.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<int> parameters;  // positions of `graph`'s parameters in the whole graph
  std::string name;             // name of the node that is called
  int later = 0;                // see collective::Terms
};

class JoinedParts;

struct Split {
  Graph whole;
  std::vector<Part> parts;
  std::shared_ptr<const JoinedParts> joined;
};

bool has_calls(const Graph& graph);  // host operators or collectives
std::shared_ptr<const Split> split_at_calls(Graph graph);
// Parameters of the whole graph, then the captured arrays.
void set_params(const Split& split, const ArrayList& parameters);

// Call while handling the exception that ended a run of the parts on this rank: the other ranks get
// the exception as the error of all collectives from `first_part` on.
void give_up_calls(const Split& split, size_t first_part) noexcept;

// Compiles a graph that was traced before, once per signature. is_part: see CachedGraph.
IntrusivePtr<CachedGraph> cached_graph_of(std::shared_ptr<const Graph> graph, bool is_part);

}  // namespace mxlite::graph
