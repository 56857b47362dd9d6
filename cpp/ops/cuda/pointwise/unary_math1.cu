#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  register_unary_kernels(ops, pointwise::UnaryMath1{});
});

}  // namespace mxlite::cuda
