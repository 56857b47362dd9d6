#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_arg(OpRegistry&);
void register_broadcast(OpRegistry&);
void register_cumsum(OpRegistry&);
void register_moments(OpRegistry&);
void register_sums(OpRegistry&);

void register_reduce(OpRegistry& ops) {
  register_arg(ops);
  register_broadcast(ops);
  register_cumsum(ops);
  register_moments(ops);
  register_sums(ops);
}

}  // namespace mxlite
