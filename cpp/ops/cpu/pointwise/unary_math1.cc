#include "cpp/ops/cpu/pointwise/tables.h"
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  pointwise::register_unary_kernels(ops, pointwise::UnaryMath1{});
});

}  // namespace mxlite
