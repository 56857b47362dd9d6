// The kernels of a simulated GPU: host functions on host memory, without a stream.
#pragma once
#include <functional>

#include "cpp/ops/op_schema.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite {

// Registers kernels for DeviceType::kCUDA.
void register_own_kernels(OpRegistry& ops);
// Returns whether an operator without own kernels gets the CPU's kernels.
bool borrows_kernels(const std::string& op);
Plan plan_own_chain(PointwiseChain chain);
// Returns null functions if there is only the plain memory layout.
LayoutBackend own_layouts();

// Memory of the devices.
void* allocate_own(size_t bytes);
void free_own(void* data) noexcept;
// Runs a device's work, such as an operator's kernels. Errors contain the name.
void run_own(const char* name, const std::function<void()>& work);
// The stream of kernels that run in the calling thread; null for kernels of the CPU.
Stream* own_stream();

}  // namespace mxlite
