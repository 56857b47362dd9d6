#include "cpp/ops/cuda/pointwise/loops.cuh"

namespace mxlite {
namespace cuda {}  // namespace cuda

void register_unary_math2_cuda(OpRegistry& ops) {
  using namespace cuda;  // NOLINT: this folder's own names
  register_unary_kernels(ops, pointwise::UnaryMath2{});
}

}  // namespace mxlite
