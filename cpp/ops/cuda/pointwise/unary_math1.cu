#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace cuda {}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace cuda;  // NOLINT: this folder's own names
  register_unary_kernels(ops, pointwise::UnaryMath1{});
});

}  // namespace mxlite
