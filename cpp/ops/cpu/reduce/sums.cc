#include "cpp/ops/cpu/reduce/norm.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace reduce {
namespace {

// Reducers of bools, which are read as bytes: whether any or all are true, and how many are.
struct Any {
  template <class T>
  static T start() {
    return 0;
  }
  template <class W>
  static W join(W a, W b) {
    return a | b;
  }
  static uint8_t step(uint8_t total, uint8_t x, uint8_t) { return total | (x != 0); }
  static bool decides(int64_t total) { return total != 0; }
  static int64_t reduce(const uint8_t* x, int64_t n) {
    return find_first(x, n, [](auto v) { return v != 0; }) < n;
  }
};
struct All {
  template <class T>
  static T start() {
    return 1;
  }
  template <class W>
  static W join(W a, W b) {
    return a & b;
  }
  static uint8_t step(uint8_t total, uint8_t x, uint8_t) { return total & (x != 0); }
  static bool decides(int64_t total) { return total == 0; }
  static int64_t reduce(const uint8_t* x, int64_t n) {
    return find_first(x, n, [](auto v) { return v == 0; }) == n;
  }
};
struct Count : Adding {
  static uint8_t step(uint8_t total, uint8_t x, uint8_t) {
    return static_cast<uint8_t>(total + (x != 0));
  }
  static int64_t reduce(const uint8_t* x, int64_t n) { return count_nonzero(x, n); }
};

template <class R>
void reduce_bools(KernelContext& ctx, const AxisMask& mask, const TensorRef& in,
                  const TensorRef& out) {
  const int64_t results = out.size();
  if (results == 0) return;
  const ReducePlan plan = make_plan(in, mask);
  auto* const totals = static_cast<int64_t*>(
      ctx.scratch(static_cast<size_t>(results * plan.chunks) * sizeof(int64_t)));
  accumulate<R, uint8_t>(plan, in, Compute::kInt64, nullptr, totals, results);
  pointwise::store_fn(Compute::kInt64, out.dtype)(totals, results, out.data);
}

template <class R, class P = ReduceParams>
void plain(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const AxisMask mask = reduced_axes("reduce", p, in[0].shape.ndim());
  if (in[0].dtype == DType::kBool) {
    const bool counts = std::is_same_v<R, Sum> && out[0].dtype != DType::kBool;
    if (counts) return reduce_bools<Count>(ctx, mask, in[0], out[0]);
    if constexpr (std::is_same_v<R, Sum> || std::is_same_v<R, Max>)
      return reduce_bools<Any>(ctx, mask, in[0], out[0]);
    else if constexpr (std::is_same_v<R, Prod> || std::is_same_v<R, Min>)
      return reduce_bools<All>(ctx, mask, in[0], out[0]);
  }
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
