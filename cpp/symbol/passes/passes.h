// The passes over symbols. Each rewrites a graph whose shapes may be unknown, with graph::Rewrite,
// and is a free function in a file of its own; the table in passes.cc has all passes. Unlike passes
// of compiled graphs, they change the meaning of a symbol, so users ask for each.
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
  std::shared_ptr<const amp::Rules> precision;  // required by mixed-precision passes
  std::set<std::string> kept;                   // names of nodes that the pass must not change
};

// Operators in `kept` run in float32.
graph::Graph mixed_precision(const graph::Graph& graph, const PassOptions& options);
// Variables in `kept` are data, and their types do not change.
graph::Graph lower_parameters(const graph::Graph& graph, const PassOptions& options);
graph::Graph remove_casts(const graph::Graph& graph, const PassOptions& options);

struct Pass {
  const char* name;
  const char* purpose;
  graph::Graph (*run)(const graph::Graph& graph, const PassOptions& options);
};
std::span<const Pass> passes();

// Returns a new symbol whose nodes keep their names, lines and attributes. MXLITE_VERBOSE,
// MXLITE_DUMP_GRAPH and MXLITE_VERIFY_GRAPH act as in graph::run_passes. Throws a value error for
// an unknown name of a pass.
NodeOutputs run_pass(std::string_view name, const NodeOutputs& heads,
                     const PassOptions& options = {});

// If mixed precision is on, adds to a new node the casts that the pass mixed-precision would add.
// `name` makes a cast's name from its operator.
void cast_inputs(Node& node, const std::function<std::string(const std::string& op)>& name);

}  // namespace mxlite::symbol
