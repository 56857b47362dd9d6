// Pointwise chains as kernels that are generated and compiled while a graph is lowered.
#pragma once
#include "cpp/ops/planned_kernel.h"

namespace mxlite::rtc {

// Returns whether chains become generated kernels: NVRTC must be available, and neither
// MXLITE_NVRTC=0 nor MXNET_USE_FUSION=0 set. Otherwise MXLITE_VERBOSE=rtc prints the reason.
bool generates_chains(Device device);

// Plans a launch of the chain's generated kernel on chain.device. `run` is empty if the chain
// cannot be generated or compiled; MXLITE_VERBOSE=rtc prints the reason. After a failed
// compilation, generates_chains returns false.
Plan plan_generated_chain(const PointwiseChain& chain);

}  // namespace mxlite::rtc
