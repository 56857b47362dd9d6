// Cuts a graph at its host operators and collectives. Each of these calls is a segment. Each group
// of nodes between two calls is also a segment, with a graph of its own. Segments keep the order of
// the trace, so that writes to parameters stay in order and all ranks of a job make the same calls
// in the same order.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cpp/graph/cached_graph.h"
#include "cpp/graph/host_op.h"
#include "cpp/graph/walk.h"
#include "cpp/ops/collective/processes.h"

namespace mxlite::graph {

struct Segment {
  IntrusivePtr<CachedGraph> graph;   // null if `host` or `collective` is called
  const HostOp* host = nullptr;      // owned by the whole graph's node
  const Node* collective = nullptr;  // node of the whole graph; its operator is called
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<int> parameters;  // positions of `graph`'s parameters in the whole graph
  std::string name;             // name of the host operator's or collective's node
  collective::Terms terms;      // terms of `collective`

  // The members below are used if one task runs all segments.
  std::vector<uint32_t> next;  // segments that need an output of this segment
  uint32_t needs = 0;          // number of segments whose outputs this segment needs
  bool foreign_input = false;  // whether the call reads an input or parameter of the whole graph
  bool is_result = false;      // whether the graph returns the output of a call
};

struct SegmentedGraph {
  explicit SegmentedGraph(Graph graph);  // creates no segments

  const Graph whole;
  const char* const task_name;
  const ValueSlots slots;
  std::vector<Segment> segments;
  Route route;            // order of the segments; its slots are those of `slots`
  bool can_join = false;  // whether one task can run all segments: Note [Joined segments]
  std::map<int32_t, const char*> sets;  // process sets, each with an operator that uses the set
  mutable std::mutex mutex;
  mutable std::vector<collective::PreparedCallRef> prepared;  // by segment; guarded by mutex
};

bool has_calls(const Graph& graph);  // returns whether the graph has host operators or collectives
std::shared_ptr<const SegmentedGraph> cut_at_calls(Graph graph);
// `parameters` are the parameters of the whole graph, followed by the captured arrays.
void set_params(const SegmentedGraph& graph, const ArrayList& parameters);

// Functions of autograd that call operators and graphs, and record the calls if the thread records.
struct EagerCalls {
  NDArrays (*op)(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
                 engine::Origin origin);
  NDArrays (*graph)(CachedGraph& graph, std::span<const NDArrayRef> inputs, engine::Origin origin);
};
NDArrays call_segments(const SegmentedGraph& graph, const Executable::LaunchArgs& call,
                       const EagerCalls& calls);

// Pushes one task that runs all segments (Note [Joined segments]) and returns the graph's outputs.
// Returns nullopt if the segments must be called one by one. This is the case if the graph has host
// operators, writes parameters, has calls that need copies, or has outputs that do not need all
// calls. It is also the case if operands are not computed yet, or if this process has joined no
// job. Must not be called while recording.
std::optional<NDArrays> push_joined(const std::shared_ptr<const SegmentedGraph>& graph,
                                    const Executable::LaunchArgs& call);

// Returns a CachedGraph that uses `graph` instead of tracing. See CachedGraph for `is_segment`.
IntrusivePtr<CachedGraph> cached_graph_of(std::shared_ptr<const Graph> graph, bool is_segment);

}  // namespace mxlite::graph
