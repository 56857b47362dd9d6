// Symbols whose variables are bound to arrays. Executors run such symbols forward and backward.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/autograd/tape.h"
#include "cpp/core/random_states.h"
#include "cpp/graph/cached_graph.h"
#include "cpp/symbol/run.h"

namespace mxlite::symbol {

// A symbol as a function of its variables. The arrays of the variables are passed in the order of
// `names`.
class SymbolFunction {
 public:
  // `calls` replace the calls of nodes. Without `calls`, nodes whose shapes depend on their users
  // (such as begin_state) get shapes inferred from the arrays.
  SymbolFunction(NodeOutputs heads, std::vector<std::string> names, std::optional<Calls> calls);

  const std::vector<std::string>& names() const { return names_; }
  // Adds the symbol's calls to the running trace. Loops, branches and operators written in Python
  // are also called and traced.
  Arrays trace(const Arrays& arrays) const;
  // Runs the symbol node by node on arrays of any storage type.
  Arrays run(const Arrays& arrays, const NodeRun& run_node) const;

 private:
  Arrays leaves(const Arrays& arrays) const;
  // Calls follow(listing) with a listing that has the calls for these arrays.
  Arrays with_listing(const Arrays& arrays, auto follow) const;

  const NodeOutputs heads_;
  const std::vector<std::string> names_;
  std::map<std::string, size_t> array_of_name_;
  const bool has_calls_;
  const Listing listing_;
  std::vector<size_t> positions_;  // for each variable: index of its array
};

// Arrays in the order of the symbol's arguments and of its auxiliary states.
struct BoundArrays {
  Arrays arguments;
  Arrays gradients;  // indexed by argument; null if no gradient is computed
  std::vector<autograd::GradReq> requests;
  Arrays states;
};
// Returns an array for each variable: the array of that name in `given`, or zeros of an inferred
// shape. Unless `request` is kNull, also returns zeros for all gradients. `shapes` has shapes of
// variables that are not in `given`. Throws a value error if a shape cannot be inferred.
BoundArrays bound_arrays(const NodeOutputs& heads, const std::map<std::string, NDArrayRef>& given,
                         const Inference::Shapes& shapes, Device device = {},
                         autograd::GradReq request = autograd::GradReq::kNull);

// Returns the head gradients of a backward pass with the outputs' dtypes and devices. `given` has
// an element for each output; null means ones. If `given` is shorter than the outputs, the
// remaining outputs get zeros. If `given` is empty, all outputs get ones.
Arrays head_gradients(const NodeOutputs& heads, const Arrays& outputs, const Arrays& given);

class BoundGraph {
 public:
  // Compiles the symbol into one graph, once per mode. Runs node by node instead if the symbol has
  // sparse arrays or operators that choose the storage type of their outputs, or if `run_node`
  // (which runs a node) is given. Arguments that operators use as weights become the graph's
  // parameters, so that values that depend only on parameters are cached. The other arguments
  // become the graph's inputs.
  BoundGraph(const NodeOutputs& heads, const BoundArrays& arrays, std::optional<Calls> calls,
             const std::string& name, NodeRun run_node = {});

  // Returns the outputs. If `record` is true, saves values for backward.
  const Arrays& forward(bool training, bool record, engine::Origin origin = {});
  // Runs forward in this mode if the last forward was not recorded. If an earlier backward has
  // freed the saved values, runs forward again with the same random numbers. Returns whether
  // forward ran.
  bool prepare_backward(bool training, engine::Origin origin = {});
  // Writes gradients to their arrays or adds them, according to the arrays' grad_req. See
  // head_gradients for `head_grads`.
  void backward(const Arrays& head_grads, bool training);

  const Arrays& outputs() const { return outputs_; }
  // Returns handles of all variables by name, with their gradients. The handles share the memory of
  // the given arrays.
  std::map<std::string, NDArrayRef> values() const;
  // Makes the next backward run forward first. Call if the outputs were computed without forward().
  void forget_forward() { recorded_ = false; }
  // Makes both graphs share a count of compilations, because `other` is the same network for other
  // shapes.
  void count_with(const BoundGraph& other);
  size_t num_signatures() const { return graph_ ? graph_->num_entries() : 0; }

 private:
  void run_again(engine::Origin origin);

  const NodeOutputs heads_;
  std::shared_ptr<const SymbolFunction> function_;
  Arrays arrays_;  // in the order of the function's variables; the graph's inputs precede its
                   // parameters
  size_t num_inputs_ = 0, num_states_ = 0;
  NodeRun run_node_;
  IntrusivePtr<graph::CachedGraph> graph_;  // null if the symbol runs node by node
  Arrays outputs_;
  AllRandomStates random_;  // random states before the last recorded forward
  bool training_ = false, recorded_ = false, on_graph_ = false;
  bool spent_ = false;  // whether backward has freed the values that the last forward saved
};

}  // namespace mxlite::symbol
