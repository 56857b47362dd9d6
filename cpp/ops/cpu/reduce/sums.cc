#include "cpp/ops/cpu/reduce/norm.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

template <class R, class P = ReduceParams>
void plain(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p, in[0].shape.ndim());
  run_reduction<R>(ctx, mask, in[0], out[0], [](auto total) { return total; });
}

template <class P>
void mean(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p, in[0].shape.ndim());
  const int64_t n = reduced_size(in[0].shape, mask);
  run_reduction<Sum>(ctx, mask, in[0], out[0], [n](auto total) {
    using W = decltype(total);
    if constexpr (std::is_integral_v<W>)
      return n ? static_cast<W>(total / static_cast<W>(n)) : W(0);
    else
      return total / static_cast<W>(n);  // NaN if there are no elements, as in NumPy
  });
}

void norm(KernelContext& ctx, const NormParams& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("norm", p.axis, false, in[0].shape.ndim());
  if (p.ord == 1)
    run_reduction<SumAbs>(ctx, mask, in[0], out[0], [](auto total) { return total; });
  else
    root_of_squares(ctx, mask, in[0], out[0]);
}

}  // namespace
}  // namespace reduce

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace reduce;  // NOLINT: this folder's own names
  ops.cpu_kernel<&plain<Sum>>("sum", kStrided);
  ops.cpu_kernel<&plain<NanSum>>("nansum", kStrided);
  ops.cpu_kernel<&plain<Prod>>("prod", kStrided);
  ops.cpu_kernel<&plain<NanProd>>("nanprod", kStrided);
  ops.cpu_kernel<&plain<Max>>("max", kStrided);
  ops.cpu_kernel<&plain<Min>>("min", kStrided);
  ops.cpu_kernel<&mean<ReduceParams>>("mean", kStrided);
  using P = NumpyReduceParams;
  ops.cpu_kernel<&plain<Sum, P>>("_np_sum", kStrided);
  ops.cpu_kernel<&plain<Prod, P>>("_np_prod", kStrided);
  ops.cpu_kernel<&plain<Max, P>>("_np_max", kStrided);
  ops.cpu_kernel<&plain<Min, P>>("_np_min", kStrided);
  ops.cpu_kernel<&mean<P>>("_npi_mean", kStrided);
  ops.cpu_kernel<&norm>("norm", kStrided);
});

}  // namespace mxlite
