#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_arg_cpu(OpRegistry&);
void register_broadcast_cpu(OpRegistry&);
void register_cumsum_cpu(OpRegistry&);
void register_moments_cpu(OpRegistry&);
void register_sums_cpu(OpRegistry&);

void register_reduce_cpu(OpRegistry& ops) {
  register_arg_cpu(ops);
  register_broadcast_cpu(ops);
  register_cumsum_cpu(ops);
  register_moments_cpu(ops);
  register_sums_cpu(ops);
}

}  // namespace mxlite
