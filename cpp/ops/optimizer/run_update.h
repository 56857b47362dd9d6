// A weight update on raw memory, in the calling thread: for servers, which have no engine.
#pragma once
#include <span>
#include <utility>

#include "cpp/ops/kernel.h"

namespace mxlite::optimizer {

using NamedNumber = std::pair<const char*, double>;

// Runs the CPU kernel of "sgd_update" and the like on contiguous tensors; states among the inputs
// are changed.
void run_update(const char* op, std::span<const NamedNumber> params, Inputs inputs,
                const TensorRef& output);

// Returns how many states "sgd_update" and the like keep for a weight.
int states_of_update(const char* op);

}  // namespace mxlite::optimizer
