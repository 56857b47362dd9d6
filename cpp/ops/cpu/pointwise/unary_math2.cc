#include "cpp/ops/cpu/pointwise/tables.h"

namespace mxlite {

void register_unary_math2_cpu(OpRegistry& ops) {
  pointwise::register_unary_kernels(ops, pointwise::UnaryMath2{});
}

}  // namespace mxlite
