// CPU kernels of the sequence operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_sequence_ops_cpu(OpRegistry&);

void register_sequence_cpu(OpRegistry& ops) { register_sequence_ops_cpu(ops); }

}  // namespace mxlite
