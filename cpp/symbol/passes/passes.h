// The passes over symbols: each makes a graph of calls, whose shapes may be unknown, into another
// one. It is a free function in a file of its own, written with graph::Rewrite; the table in
// passes.cc has all of them. Unlike those of compiled graphs they change what a symbol means, so
// each runs only where a user asks for it.
#pragma once
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "cpp/graph/graph.h"
#include "cpp/ops/amp.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

struct PassOptions {
  std::shared_ptr<const amp::Rules> precision;  // passes of mixed precision require them
  std::set<std::string> kept;                   // names of nodes that the pass leaves as they are
};

// The operators among `kept` run in float32.
graph::Graph mixed_precision(const graph::Graph& graph, const PassOptions& options);
// The variables among `kept` are data.
graph::Graph lower_parameters(const graph::Graph& graph, const PassOptions& options);
graph::Graph remove_casts(const graph::Graph& graph, const PassOptions& options);

struct Pass {
  const char* name;
  const char* purpose;
  graph::Graph (*run)(const graph::Graph& graph, const PassOptions& options);
};
std::span<const Pass> passes();

// Returns a new symbol whose nodes keep their names, lines and attributes. MXLITE_VERBOSE,
// MXLITE_DUMP_GRAPH and MXLITE_VERIFY_GRAPH act as in graph::run_passes. A name of no pass is a
// value error.
NodeOutputs run_pass(std::string_view name, const NodeOutputs& heads,
                     const PassOptions& options = {});

// Gives a node that is being composed the casts that the pass mixed-precision would add, if mixed
// precision is on. `name` makes a cast's name from its operator.
void cast_inputs(Node& node, const std::function<std::string(const std::string& op)>& name);

}  // namespace mxlite::symbol
