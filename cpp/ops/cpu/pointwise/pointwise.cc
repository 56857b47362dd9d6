#include "cpp/ops/op_schema.h"

namespace mxlite {

void register_add_n_cpu(OpRegistry&);
void register_binary_cpu(OpRegistry&);
void register_logic_cpu(OpRegistry&);
void register_unary_arithmetic_cpu(OpRegistry&);
void register_unary_math1_cpu(OpRegistry&);
void register_unary_math2_cpu(OpRegistry&);

void register_pointwise_cpu(OpRegistry& ops) {
  register_add_n_cpu(ops);
  register_binary_cpu(ops);
  register_logic_cpu(ops);
  register_unary_arithmetic_cpu(ops);
  register_unary_math1_cpu(ops);
  register_unary_math2_cpu(ops);
}

}  // namespace mxlite
