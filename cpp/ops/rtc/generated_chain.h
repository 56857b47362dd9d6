// Pointwise chains as kernels that are generated and compiled when a graph is lowered.
#pragma once
#include "cpp/ops/planned_kernel.h"

namespace mxlite::rtc {

// Returns whether chains become generated kernels: there is NVRTC, and neither MXLITE_NVRTC=0 nor
// MXNET_USE_FUSION=0 asks for the interpreter. MXLITE_VERBOSE=rtc prints why not.
bool generates_chains(Device device);

// Plans a launch of the chain's own kernel on chain.device. Without `run`: the chain cannot be
// generated or compiled, for a reason that MXLITE_VERBOSE=rtc prints. After a failed compilation
// generates_chains is false.
Plan plan_generated_chain(const PointwiseChain& chain);

}  // namespace mxlite::rtc
