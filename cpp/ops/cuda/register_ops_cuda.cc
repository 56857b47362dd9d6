#include "cpp/ops/cuda/register_ops_cuda.h"

namespace mxlite {

// One line per file or family, in alphabetical order of folder and file.
void register_creation_cuda(OpRegistry&);  // tensor/

void register_all_ops_cuda(OpRegistry& ops) { register_creation_cuda(ops); }

}  // namespace mxlite
