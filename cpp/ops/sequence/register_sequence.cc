// Schemas of the sequence operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_sequence_ops(OpRegistry&);

void register_sequence(OpRegistry& ops) { register_sequence_ops(ops); }

}  // namespace mxlite
