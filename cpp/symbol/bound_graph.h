// Symbols with arrays for their variables: what executors run, forward and backward.
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

// The function of a symbol's variables, which are given in the order of `names`.
class SymbolFunction {
 public:
  // `calls` stand for those of nodes. Without it, nodes such as begin_state, whose shapes are left
  // to their users, take the shapes that follow from those of the arrays.
  SymbolFunction(NodeOutputs heads, std::vector<std::string> names, std::optional<Calls> calls);

  const std::vector<std::string>& names() const { return names_; }
  // Adds the symbol's calls to the running trace. Loops, branches and operators written in Python
  // are called and traced.
  Arrays trace(const Arrays& arrays) const;
  // Runs node by node, arrays of any storage.
  Arrays run(const Arrays& arrays, const NodeRun& run_node) const;

 private:
  Arrays leaves(const Arrays& arrays) const;
  // Calls follow(listing) with the calls that these arrays need.
  template <class F>
  Arrays with_listing(const Arrays& arrays, F follow) const;

  const NodeOutputs heads_;
  const std::vector<std::string> names_;
  std::map<std::string, size_t> array_of_name_;
  const bool has_calls_;
  const Listing listing_;
  std::vector<size_t> positions_;  // by variable: which of the arrays
};

// In the order of the symbol's arguments and of its auxiliary states.
struct BoundArrays {
  Arrays arguments;
  Arrays gradients;  // by argument; null: no gradient is wanted
  std::vector<autograd::GradReq> requests;
  Arrays states;
};
// Returns the arrays that `given` has by name, and zeros of inferred shapes for the other variables
// and, unless `request` is kNull, for all gradients. `shapes` are those of variables that `given`
// lacks. Throws a value error if a shape stays unknown.
BoundArrays bound_arrays(const NodeOutputs& heads, const std::map<std::string, NDArrayRef>& given,
                         const Inference::Shapes& shapes, Device device = {},
                         autograd::GradReq request = autograd::GradReq::kNull);

// Returns the gradients of outputs with which a backward pass begins, of the outputs' dtypes and on
// their devices. given: by output, null for ones; zeros for outputs that it leaves out, but ones if
// it is empty.
Arrays head_gradients(const NodeOutputs& heads, const Arrays& outputs, const Arrays& given);

class BoundGraph {
 public:
  // Compiles the symbol as a whole, once per mode, unless it has sparse arrays, operators that
  // choose the storage of their outputs, or `run_node`, which then runs each node. Arguments that
  // operators use as weights are the graph's parameters, so that what depends on them alone is
  // computed once per change; the others are its inputs.
  BoundGraph(const NodeOutputs& heads, const BoundArrays& arrays, std::optional<Calls> calls,
             const std::string& name, NodeRun run_node = {});

  // Returns the outputs. `record` keeps what backward needs.
  const Arrays& forward(bool training, bool record, engine::Origin origin = {});
  // Runs forward in this mode if the last forward was not recorded, or again, with the same random
  // numbers, if an earlier backward has used up what it had kept. Returns whether it ran.
  bool prepare_backward(bool training, engine::Origin origin = {});
  // Writes or adds gradients into the arrays for them, as requested. See head_gradients.
  void backward(const Arrays& head_grads, bool training);

  const Arrays& outputs() const { return outputs_; }
  // Arrays for the variables by name, on the memory of the given ones; gradients belong to them.
  std::map<std::string, NDArrayRef> values() const;
  // The outputs were computed in another way: the next backward runs forward.
  void forget_forward() { recorded_ = false; }
  // Both graphs are the same network for different shapes: their compilations count together.
  void count_with(const BoundGraph& other);
  size_t num_signatures() const { return graph_ ? graph_->num_entries() : 0; }

 private:
  void run_again(engine::Origin origin);

  const NodeOutputs heads_;
  std::shared_ptr<const SymbolFunction> function_;
  Arrays arrays_;  // in the order of the function's variables; inputs of the graph are first
  size_t num_inputs_ = 0, num_states_ = 0;
  NodeRun run_node_;
  IntrusivePtr<graph::CachedGraph> graph_;  // null: runs node by node
  Arrays outputs_;
  AllRandomStates random_;  // before the last recorded forward
  bool training_ = false, recorded_ = false, on_graph_ = false;
  bool spent_ = false;  // backward has used up what the last forward kept
};

}  // namespace mxlite::symbol
