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

}  // namespace mxlite::optimizer
