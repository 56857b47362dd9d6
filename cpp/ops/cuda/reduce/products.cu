#include "cpp/ops/cuda/reduce/reduce.cuh"
#include "cpp/ops/registration.h"

namespace mxlite {

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Prod>>("prod", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::NanProd>>("nanprod", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Max>>("max", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Min>>("min", kStrided);
  using P = NumpyReduceParams;
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Prod, P>>("_np_prod", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Max, P>>("_np_max", kStrided);
  ops.cuda_kernel<&cuda::plain_reduction<reduce::Min, P>>("_np_min", kStrided);
});

}  // namespace mxlite
