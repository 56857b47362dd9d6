// Schemas of the matrix operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_dot(OpRegistry&);
void register_khatri_rao(OpRegistry&);
void register_linalg_factor(OpRegistry&);
void register_linalg_gemm(OpRegistry&);
void register_linalg_triangle(OpRegistry&);

void register_matrix(OpRegistry& ops) {
  register_dot(ops);
  register_khatri_rao(ops);
  register_linalg_factor(ops);
  register_linalg_gemm(ops);
  register_linalg_triangle(ops);
}

}  // namespace mxlite
