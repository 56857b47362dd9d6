#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_csr_cpu(OpRegistry&);
void register_row_updates_cpu(OpRegistry&);
void register_rows_cpu(OpRegistry&);

void register_sparse_cpu(OpRegistry& ops) {
  register_csr_cpu(ops);
  register_row_updates_cpu(ops);
  register_rows_cpu(ops);
}

}  // namespace mxlite
