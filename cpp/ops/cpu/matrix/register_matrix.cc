// CPU kernels of the matrix operators, one line per file.
#include "cpp/ops/register_ops.h"

namespace mxlite {

void register_dot_cpu(OpRegistry&);
void register_khatri_rao_cpu(OpRegistry&);
void register_linalg_factor_cpu(OpRegistry&);
void register_linalg_gemm_cpu(OpRegistry&);
void register_linalg_triangle_cpu(OpRegistry&);

void register_matrix_cpu(OpRegistry& ops) {
  register_dot_cpu(ops);
  register_khatri_rao_cpu(ops);
  register_linalg_factor_cpu(ops);
  register_linalg_gemm_cpu(ops);
  register_linalg_triangle_cpu(ops);
}

}  // namespace mxlite
