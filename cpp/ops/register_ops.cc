#include "cpp/ops/register_ops.h"

namespace mxlite {

// Schemas, one line per file or family, in alphabetical order of folder and file.
void register_nn(OpRegistry&);          // nn/, itself a list
void register_reshape_to(OpRegistry&);  // tensor/
void register_tensor(OpRegistry&);      // tensor/, itself a list

// CPU kernels.
void register_nn_cpu(OpRegistry&);
void register_reshape_to_cpu(OpRegistry&);
void register_tensor_cpu(OpRegistry&);

void register_all_ops(OpRegistry& ops) {
  register_nn(ops);
  register_reshape_to(ops);
  register_tensor(ops);

  // oneDNN kernels before native ones: the first candidate that takes a call runs.

  register_nn_cpu(ops);
  register_reshape_to_cpu(ops);
  register_tensor_cpu(ops);
}

}  // namespace mxlite
