// Runs calls of symbols on arrays: adds the calls to the running trace, or runs them one by one.
#pragma once
#include <functional>

#include "cpp/graph/walk.h"
#include "cpp/ops/invoke.h"
#include "cpp/symbol/inference.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/subgraph.h"

namespace mxlite::symbol {

using Arrays = std::vector<NDArrayRef>;

// Runs an operator with kernels on dense or traced arrays. Does not apply mixed precision, because
// a symbol has casts as nodes. Returns all outputs, including hidden ones. `device` is used if
// there are no inputs.
NDArrays run_operator(const CallRef& call, const Arrays& inputs, Device device,
                      engine::Origin origin);

// Returns how many outputs of a call monitors show: visible ones, and hidden ones that have names
// (statistics of normalizations).
size_t num_shown_outputs(const Call& call, int num_inputs);

// Runs a call inside a subgraph on arrays of any storage type. The default supports dense
// operators; a higher layer that supports more sets another function, once.
using CallRunner = Arrays (*)(const CallRef& call, const Arrays& inputs);
void set_call_runner(CallRunner runner);

// Runs the call of a node; may also return hidden outputs. If empty, the function of
// set_call_runner is used.
using NodeRun = std::function<Arrays(int32_t node, const Arrays& inputs)>;
// Runs a graph node by node; `leaves` are arrays for its inputs.
Arrays run_nodes(const graph::Graph& graph, const graph::GraphRoute& route, const Arrays& leaves,
                 const NodeRun& run_node = {});

// Adds the calls of a listing to the running trace; `leaves` are arrays for its variables. Calls
// and traces host operators, operators that choose the storage type of their outputs, and those
// whose inputs numpy mode may cast.
Arrays trace_calls(const graph::Graph& graph, const Arrays& leaves);

// Returns calls, with shapes inferred from the variables, for nodes whose users determine the shape
// (begin_state).
Calls calls_with_shapes(const NodeOutputs& heads,
                        const std::function<Inference::Known(const Node&)>& known);

// Runs a subgraph; can be called repeatedly.
class SubgraphRun {
 public:
  explicit SubgraphRun(const Subgraph& graph);
  // `arrays` has an element for each variable of the subgraph.
  Arrays operator()(const Arrays& arrays) const;

 private:
  Arrays run(const Listing& listing, const graph::GraphRoute& route, const Arrays& leaves) const;

  const Subgraph& graph_;
  const Listing listing_;
  const graph::GraphRoute route_;
  std::vector<size_t> variables_;  // by input of the listing
  bool has_open_shapes_ = false;
};

}  // namespace mxlite::symbol
