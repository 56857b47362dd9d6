// The list of all operators. One line per file; oneDNN kernels come before native ones, because the
// first candidate that takes a call runs.
#pragma once

namespace mxlite {

class OpRegistry;
void register_all_ops(OpRegistry& ops);

}  // namespace mxlite
