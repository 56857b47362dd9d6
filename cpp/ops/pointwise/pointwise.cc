#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_binary(OpRegistry&);
void register_scalar(OpRegistry&);
void register_unary(OpRegistry&);

void register_pointwise(OpRegistry& ops) {
  register_binary(ops);
  register_scalar(ops);
  register_unary(ops);
}

}  // namespace mxlite
