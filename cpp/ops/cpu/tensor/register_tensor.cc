// CPU kernels of the shape, indexing and sorting operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_concat_cpu(OpRegistry&);
void register_depth_to_space_cpu(OpRegistry&);
void register_diag_cpu(OpRegistry&);
void register_gather_nd_cpu(OpRegistry&);
void register_index_array_cpu(OpRegistry&);
void register_one_hot_cpu(OpRegistry&);
void register_pad_cpu(OpRegistry&);
void register_raise_async_cpu(OpRegistry&);
void register_repeat_cpu(OpRegistry&);
void register_reshape_cpu(OpRegistry&);
void register_shape_array_cpu(OpRegistry&);
void register_slice_cpu(OpRegistry&);
void register_sort_cpu(OpRegistry&);
void register_take_cpu(OpRegistry&);
void register_transpose_cpu(OpRegistry&);

void register_tensor_cpu(OpRegistry& ops) {
  register_concat_cpu(ops);
  register_depth_to_space_cpu(ops);
  register_diag_cpu(ops);
  register_gather_nd_cpu(ops);
  register_index_array_cpu(ops);
  register_one_hot_cpu(ops);
  register_pad_cpu(ops);
  register_raise_async_cpu(ops);
  register_repeat_cpu(ops);
  register_reshape_cpu(ops);
  register_shape_array_cpu(ops);
  register_slice_cpu(ops);
  register_sort_cpu(ops);
  register_take_cpu(ops);
  register_transpose_cpu(ops);
}

}  // namespace mxlite
