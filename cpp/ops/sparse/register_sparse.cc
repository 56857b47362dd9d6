#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_csr(OpRegistry&);
void register_row_updates(OpRegistry&);
void register_rows(OpRegistry&);

void register_sparse(OpRegistry& ops) {
  register_csr(ops);
  register_row_updates(ops);
  register_rows(ops);
}

}  // namespace mxlite
