// The passes between a trace and lowering. Each pass is a free function in a file of its own. The
// tables in passes.cc define their order. No pass runs outside of the tables.
//
// inference:  kInference -> lower
// training:   kRecorded -> kDifferentiated -> build_backward; forward and backward graph each:
//             kTraining -> lower
#pragma once
#include <functional>
#include <span>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

struct PassContext {
  Device device;
  // Gradients depend on this value: keep the rounding of eager execution.
  bool exact = false;
  // Whether the graph may run on the caller's thread (see is_small). Such a graph uses only kernels
  // that find_inline_kernel returns.
  bool small = false;
};

Graph remove_dead(const Graph& graph, const PassContext& context);
Graph remove_identity(const Graph& graph, const PassContext& context);
Graph fold_constants(const Graph& graph, const PassContext& context);
Graph merge_common(const Graph& graph, const PassContext& context);
Graph channels_last(const Graph& graph, const PassContext& context);
Graph fold_batch_norm(const Graph& graph, const PassContext& context);
Graph fuse_post_ops(const Graph& graph, const PassContext& context);
// Results differ from those of the separate operators by rounding. With dropout, the random numbers
// also differ.
Graph fuse_attention(const Graph& graph, const PassContext& context);

// The fused operators have only first-order gradients.
Graph fuse_norm(const Graph& graph, const PassContext& context);

struct Pass {
  const char* name;
  const char* purpose;
  Graph (*run)(const Graph& graph, const PassContext& context);
};
enum class Pipeline : uint8_t {
  kInference,       // graphs that no gradient depends on
  kRecorded,        // traced under autograd.record; the tape can run the result again node by node
  kDifferentiated,  // the same graph, before build_backward
  kTraining,        // other training graphs, and forward and backward parts of recorded graphs
};
std::span<const Pass> passes_of(Pipeline pipeline);

// Runs one pass of `table`. Then dumps, prints and verifies the graph like run_passes. `has_shapes`
// is false for graphs of symbols.
Graph run_pass(const char* table, const char* name, const Graph& graph,
               const std::function<Graph(const Graph&)>& pass, bool has_shapes = true);

// MXLITE_DUMP_GRAPH=<dir> writes the text of the graph after each pass. MXLITE_VERBOSE=passes
// prints the numbers of nodes. MXLITE_VERIFY_GRAPH=1 (and every build with assertions) verifies the
// graph after each pass. MXLITE_SKIP_PASSES=<name>,<name> skips passes. Throws a value error for an
// unknown name.
Graph run_passes(Pipeline pipeline, Graph graph, const PassContext& context);

// Throws an internal error that names the rule that `graph` violates and the preceding pass.
void verify(const Graph& graph, const char* after, bool has_shapes = true);
bool verify_is_on();
// Writes `text` to a file if MXLITE_DUMP_GRAPH is set.
void dump(const std::string& graph_name, const char* stage, const std::string& text);

}  // namespace mxlite::graph
