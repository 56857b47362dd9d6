// What the rest of the program calls of this folder.
#pragma once

namespace mxlite {

class OpRegistry;

// Eager kernels; before the native ones, so that they are tried first.
void register_onednn_cpu(OpRegistry& ops);
// Planned kernels (cpp/ops/planned_kernel.h).
void register_onednn_plans();

}  // namespace mxlite
