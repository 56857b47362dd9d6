#include "cpp/ops/contrib/allclose.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite {
namespace cuda {
namespace {

__global__ void set_true(uint8_t* out) { *out = 1; }

__global__ void clear_if_far(int64_t n, AllcloseParams p, const void* left, const void* right,
                             DType dtype, uint8_t* out) {
  bool far = false;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const double a = load_any<double>(left, dtype, i), b = load_any<double>(right, dtype, i);
    if (a == b) continue;  // infinities of one sign too
    if (a != a || b != b)
      far |= !(p.equal_nan && a != a && b != b);
    else
      far |= !(b - b == 0 && fabs(a - b) <= p.atol + p.rtol * fabs(b));
  }
  if (far) *out = 0;  // all that write, write the same
}

void allclose(KernelContext& ctx, const AllcloseParams& p, Inputs in, Outputs out) {
  launch(ctx, set_true, 1, 1, out[0].as<uint8_t>());
  launch_items(ctx, clear_if_far, in[0].size(), in[0].size(), p, in[0].data, in[1].data,
               in[0].dtype, out[0].as<uint8_t>());
}

}  // namespace
}  // namespace cuda

void register_allclose_cuda(OpRegistry& ops) {
  ops.kernel<&cuda::allclose>("_contrib_allclose", DeviceType::kCUDA);
}

}  // namespace mxlite
