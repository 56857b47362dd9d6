#include "cpp/ops/register_ops.h"

namespace mxlite {

// Schemas, one line per file or family, in alphabetical order of folder and file.
void register_cast(OpRegistry&);          // tensor/
void register_contrib(OpRegistry&);       // contrib/, itself a list
void register_creation(OpRegistry&);      // tensor/
void register_image(OpRegistry&);         // image/, itself a list
void register_matrix(OpRegistry&);        // matrix/, itself a list
void register_nn(OpRegistry&);            // nn/, itself a list
void register_optimizer(OpRegistry&);     // optimizer/
void register_pointwise(OpRegistry&);     // pointwise/, itself a list
void register_quantization(OpRegistry&);  // quantization/
void register_random(OpRegistry&);        // random/
void register_reduce(OpRegistry&);        // reduce/, itself a list
void register_reshape_to(OpRegistry&);    // tensor/
void register_sequence(OpRegistry&);      // sequence/, itself a list
void register_sparse(OpRegistry&);        // sparse/, itself a list
void register_tensor(OpRegistry&);        // tensor/, itself a list
void register_vision(OpRegistry&);        // vision/, itself a list
void register_where(OpRegistry&);         // tensor/

// CPU kernels.
void register_contrib_cpu(OpRegistry&);
void register_copy_cpu(OpRegistry&);
void register_creation_cpu(OpRegistry&);
void register_image_cpu(OpRegistry&);
void register_matrix_cpu(OpRegistry&);
void register_nn_cpu(OpRegistry&);
void register_onednn_cpu(OpRegistry&);
void register_optimizer_cpu(OpRegistry&);
void register_pointwise_cpu(OpRegistry&);
void register_quantization_cpu(OpRegistry&);
void register_random_cpu(OpRegistry&);
void register_reduce_cpu(OpRegistry&);
void register_reshape_to_cpu(OpRegistry&);
void register_sequence_cpu(OpRegistry&);
void register_sparse_cpu(OpRegistry&);
void register_tensor_cpu(OpRegistry&);
void register_vision_cpu(OpRegistry&);
void register_where_cpu(OpRegistry&);

void register_all_ops(OpRegistry& ops) {
  register_cast(ops);
  register_contrib(ops);
  register_creation(ops);
  register_image(ops);
  register_matrix(ops);
  register_nn(ops);
  register_optimizer(ops);
  register_pointwise(ops);
  register_quantization(ops);
  register_random(ops);
  register_reduce(ops);
  register_reshape_to(ops);
  register_sequence(ops);
  register_sparse(ops);
  register_tensor(ops);
  register_vision(ops);
  register_where(ops);

  // oneDNN kernels before native ones: the first candidate that takes a call runs.
  register_onednn_cpu(ops);

  register_contrib_cpu(ops);
  register_copy_cpu(ops);
  register_creation_cpu(ops);
  register_image_cpu(ops);
  register_matrix_cpu(ops);
  register_nn_cpu(ops);
  register_optimizer_cpu(ops);
  register_pointwise_cpu(ops);
  register_quantization_cpu(ops);
  register_random_cpu(ops);
  register_reduce_cpu(ops);
  register_reshape_to_cpu(ops);
  register_sequence_cpu(ops);
  register_sparse_cpu(ops);
  register_tensor_cpu(ops);
  register_vision_cpu(ops);
  register_where_cpu(ops);
}

}  // namespace mxlite
