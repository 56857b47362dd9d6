// Runs a symbol forward and backward node by node. Monitors use this to show gradients as well.
#pragma once
#include <functional>

#include "cpp/symbol/run.h"

namespace mxlite::symbol {

// One forward pass in which each node has a separate tape, so that backward stops at every node.
// Nodes are identified by their position in the listing.
class RecordedSteps {
 public:
  // Runs the call of a node. May also return hidden outputs.
  using Run = std::function<Arrays(int32_t node, const Arrays& inputs)>;
  // Called in forward after each node, outside of recording.
  using Watch = std::function<void(int32_t node, const Arrays& inputs, const Arrays& outputs)>;
  // Called in backward with the gradient of each differentiable input of each node.
  using Report = std::function<void(const Node& node, int input, const NDArrayRef& gradient)>;

  // Runs forward in training mode. `leaves` are arrays for the listing's variables. If a leaf is an
  // autograd variable, backward stores its gradient.
  RecordedSteps(Listing listing, Arrays leaves, const Run& run, const Watch& watch);

  const Arrays& outputs() const { return outputs_; }

  // Writes or adds gradients according to each leaf's grad_req. A gradient is zero if the outputs
  // do not depend on the leaf. May be called again. `head_grads` has an element for each output.
  // Null or missing elements mean ones.
  void backward(const Arrays& head_grads, const Report& report) const;

 private:
  class Forward;
  class Backward;
  struct RecordedStep {
    Arrays inputs, outputs;  // the inputs are the variables of the step's tape
  };

  const Listing listing_;
  const graph::GraphRoute forward_;
  const Arrays leaves_;
  std::vector<RecordedStep> steps_;
  Arrays outputs_;
};

// Returns the name that a monitor shows for the gradient of an input, such as fc1_backward_output0.
std::string gradient_name(const Node& node, int input);

}  // namespace mxlite::symbol
