#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  constexpr Kernel kStrided = {.strided_inputs = true};
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  ops.kernel<&cuda::plain_reduction<reduce::Prod>>("prod", kCUDA, kStrided);
  ops.kernel<&cuda::plain_reduction<reduce::NanProd>>("nanprod", kCUDA, kStrided);
  ops.kernel<&cuda::plain_reduction<reduce::Max>>("max", kCUDA, kStrided);
  ops.kernel<&cuda::plain_reduction<reduce::Min>>("min", kCUDA, kStrided);
});

}  // namespace mxlite
