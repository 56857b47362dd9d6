// The passes from a traced graph to the graph that is lowered. Each is a free function in a file of
// its own. kPasses gives their order for every graph; recorded graphs are split and differentiated
// around it (recorded_graph.cc), and executables choose layouts and memory behind it
// (executable.cc).
#pragma once
#include <array>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

struct PassContext {
  Device device;
  // A value that a gradient may depend on is computed: rounding must be that of the eager call.
  bool exact = false;
  // Runs in the caller's thread (is_small): plain kernels only.
  bool small = false;
};

Graph remove_dead(const Graph& graph, const PassContext& context);
Graph remove_identity(const Graph& graph, const PassContext& context);
Graph fold_constants(const Graph& graph, const PassContext& context);
Graph merge_common(const Graph& graph, const PassContext& context);
Graph channels_last(const Graph& graph, const PassContext& context);
Graph fold_batch_norm(const Graph& graph, const PassContext& context);
Graph fuse_post_ops(const Graph& graph, const PassContext& context);

// Runs on recorded graphs before differentiation; the fused operators have gradients.
Graph fuse_norm(const Graph& graph, const PassContext& context);

struct Pass {
  const char* name;
  Graph (*run)(const Graph& graph, const PassContext& context);
  bool exact;  // changes no bit of the result, so gradients may see it too
};
inline constexpr std::array kPasses = {
    Pass{"remove-dead", remove_dead, true},          Pass{"remove-identity", remove_identity, true},
    Pass{"fold-constants", fold_constants, true},    Pass{"merge-common", merge_common, true},
    Pass{"channels-last", channels_last, false},  // recorded graphs: before gradients are taken
    Pass{"fold-batch-norm", fold_batch_norm, false}, Pass{"fuse-post-ops", fuse_post_ops, true},
    Pass{"remove-dead", remove_dead, true},
};

// All of kPasses that the context allows. MXLITE_DUMP_GRAPH=<dir> writes the text after each;
// MXLITE_VERIFY_GRAPH=1 (and builds with assertions) verifies after each.
Graph run_passes(Graph graph, const PassContext& context);

// Throws an internal error that says which rule `graph` breaks and after which pass.
void verify(const Graph& graph, const char* after);
bool verify_is_on();
// Writes a file of MXLITE_DUMP_GRAPH; nothing when that is not set.
void dump(const std::string& graph_name, const char* stage, const std::string& text);

}  // namespace mxlite::graph
