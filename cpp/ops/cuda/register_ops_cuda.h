// The list of all CUDA kernels, as cpp/ops/register_ops.h is that of operators.
#pragma once

namespace mxlite {

class OpRegistry;
// Called once, when the plug-in is loaded.
void register_all_ops_cuda(OpRegistry& ops);

}  // namespace mxlite
