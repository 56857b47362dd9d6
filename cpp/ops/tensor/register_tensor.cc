// Schemas of the shape, indexing and sorting operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_concat(OpRegistry&);
void register_depth_to_space(OpRegistry&);
void register_diag(OpRegistry&);
void register_gather_nd(OpRegistry&);
void register_index_array(OpRegistry&);
void register_one_hot(OpRegistry&);
void register_pad(OpRegistry&);
void register_raise_async(OpRegistry&);
void register_repeat(OpRegistry&);
void register_reshape(OpRegistry&);
void register_shape_array(OpRegistry&);
void register_slice(OpRegistry&);
void register_sort(OpRegistry&);
void register_take(OpRegistry&);
void register_transpose(OpRegistry&);

void register_tensor(OpRegistry& ops) {
  register_concat(ops);
  register_depth_to_space(ops);
  register_diag(ops);
  register_gather_nd(ops);
  register_index_array(ops);
  register_one_hot(ops);
  register_pad(ops);
  register_raise_async(ops);
  register_repeat(ops);
  register_reshape(ops);
  register_shape_array(ops);
  register_slice(ops);
  register_sort(ops);
  register_take(ops);
  register_transpose(ops);
}

}  // namespace mxlite
