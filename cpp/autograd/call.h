// The one way to call an operator on arrays: adds a node to the trace, or runs it and records it.
#pragma once
#include "cpp/ops/invoke.h"

namespace mxlite::autograd {

// Returns all outputs, hidden ones too. options.training is ignored: the thread's mode decides.
NDArrays call(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
              InvokeOptions options = {});

}  // namespace mxlite::autograd
