// Activation checkpointing. A recorded computation saves only its inputs, and backward runs the
// computation again.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cpp/autograd/control_flow.h"

namespace mxlite::autograd {

// Note [Checkpoints]
// The first run is recorded like any other computation. Its part of the tape is dropped when the
// run ends. When backward reaches the checkpoint, the body runs again on the same inputs with the
// same random numbers. Backward continues with the nodes that this run records. Gradients thus
// arrive at inputs and parameters in the same order as without a checkpoint, so they have the same
// bits. These nodes are freed one by one. While the body runs again, states that it writes (running
// statistics) have the values from before the first run. Afterwards the states get their current
// values back, which raises their versions. Suppose that another operator of the same graph has
// read a state and is differentiated later, by a second backward with retain_graph. For this
// operator, the state counts as overwritten.
struct CheckpointedCall {
  using Body = std::function<NDArrays(std::span<const NDArrayRef> inputs)>;
  std::string name;
  Body body;
  std::vector<NDArrayRef> inputs;   // arguments of the body
  std::vector<NDArrayRef> watched;  // other arrays that the body reads and must not write
  std::vector<NDArrayRef> states;   // arrays that the body may write; may be among the inputs
};

// Returns the results of the body. Throws if the body writes an array that is not in `states`.
NDArrays checkpoint(CheckpointedCall call);

// Adds a checkpoint inside a hybridized forward to the current trace as a node. The inputs of the
// node are the imports of `function`, which has no arguments.
NDArrays traced_checkpoint(const std::string& name, TracedFunctionRef function);

}  // namespace mxlite::autograd
