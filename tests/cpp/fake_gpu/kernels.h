// The kernels of a simulated GPU: host functions on host memory, without a stream.
#pragma once
#include "cpp/ops/op_schema.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite {

// Registers kernels for DeviceType::kCUDA; operators without any get the CPU's.
void register_own_kernels(OpRegistry& ops);
Plan plan_own_chain(PointwiseChain chain);

}  // namespace mxlite
