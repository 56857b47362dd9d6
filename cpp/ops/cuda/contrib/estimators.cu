// The operator `quadratic`.
#include "cpp/ops/contrib/estimators.h"
#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

template <class C>
struct Coefficients {
  C values[3];
};

template <class C>
__global__ void quadratic_kernel(int64_t n, Coefficients<C> p, const void* data, void* out,
                                 DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(out, dtype, i, pointwise::Quadratic::apply(load_as<C>(data, dtype, i), p.values));
}

void quadratic(KernelContext& ctx, const QuadraticParams& p, Inputs in, Outputs out) {
  const auto run = [&]<class C>(C) {
    const Coefficients<C> args{{static_cast<C>(p.a), static_cast<C>(p.b), static_cast<C>(p.c)}};
    launch_items(ctx, quadratic_kernel<C>, out[0].size(), out[0].size(), args, in[0].data,
                 out[0].data, in[0].dtype);
  };
  if (pointwise::compute_for_math(in[0].dtype) == pointwise::Compute::kFloat)
    run(float{});
  else
    run(double{});
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::quadratic>("_contrib_quadratic");
});

}  // namespace mxlite::cuda
