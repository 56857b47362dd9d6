// Activation checkpointing: a recorded computation keeps its inputs only, and is run again when
// backward reaches it.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cpp/autograd/control_flow.h"

namespace mxlite::autograd {

// Note [Checkpoints]
// The first run is recorded like any other, and its part of the tape is dropped when it ends. When
// backward reaches the checkpoint, the body is run again on the same inputs with the same random
// numbers, and backward continues into what this run has recorded: gradients arrive at inputs and
// parameters in the same order as without a checkpoint, so they have the same bits. What was
// recorded again is freed node by node. States that the body writes (running statistics) get the
// values from before the first run while the body runs again, and then their current ones. This
// raises the versions of the states. If another operator of the same graph reads a state and is
// differentiated later, for example by a second backward with retain_graph, the state counts as
// overwritten for that operator.
struct CheckpointedCall {
  using Body = std::function<NDArrays(std::span<const NDArrayRef> inputs)>;
  std::string name;
  Body body;
  std::vector<NDArrayRef> inputs;   // arguments of the body
  std::vector<NDArrayRef> watched;  // other arrays that the body reads and must not write
  std::vector<NDArrayRef> states;   // arrays that the body may write; may be among the inputs
};

// Returns what the body returns. Throws if the body has written an array that is not a state.
NDArrays checkpoint(CheckpointedCall call);

// A checkpoint inside a hybridized forward, as a node of the current trace. Without arguments: the
// function's imports are its inputs.
NDArrays traced_checkpoint(const std::string& name, TracedFunctionRef function);

}  // namespace mxlite::autograd
