// Runs calls of symbols on arrays. Adds the calls to the running trace, or runs them one by one.
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
// symbols contain casts as nodes. Returns all outputs, including hidden outputs. `device` is used
// if there are no inputs.
NDArrays run_operator(const CallRef& call, const Arrays& inputs, Device device,
                      engine::Origin origin);

// Returns the number of a call's outputs that monitors show. Monitors show visible outputs, and
// hidden outputs that have names (statistics of normalizations).
size_t num_shown_outputs(const Call& call, int num_inputs);

// Runs a call inside a subgraph on arrays of any storage type. The default supports dense
// operators. A higher layer that supports other operators sets another function once.
using CallRunner = Arrays (*)(const CallRef& call, const Arrays& inputs);
void set_call_runner(CallRunner runner);

// Runs the call of a node. May also return hidden outputs. If it is empty, the function of
// set_call_runner is used.
using NodeRun = std::function<Arrays(int32_t node, const Arrays& inputs)>;
// Runs a graph node by node. `leaves` are arrays for its inputs.
Arrays run_nodes(const graph::Graph& graph, const graph::GraphRoute& route, const Arrays& leaves,
                 const NodeRun& run_node = {});

// Adds the calls of a listing to the running trace. `leaves` are arrays for its variables. Host
// operators, operators that choose the storage type of their outputs, and operators whose inputs
// numpy mode may cast are called and traced.
Arrays trace_calls(const graph::Graph& graph, const Arrays& leaves);

// Returns calls for the nodes whose users determine the shape (begin_state). Their shapes are
// inferred from the variables.
Calls calls_with_shapes(const NodeOutputs& heads,
                        const std::function<Inference::Known(const Node&)>& known);

// Runs a subgraph. Can be called repeatedly.
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
  std::vector<size_t> variables_;  // indexed by input of the listing
  bool has_open_shapes_ = false;
};

}  // namespace mxlite::symbol
