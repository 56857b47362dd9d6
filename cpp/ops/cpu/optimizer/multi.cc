#include <cstring>

#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace optimizer {
namespace {

double entry(const TensorRef& t, size_t i) {
  double value = 0;
  pointwise::load_fn(t.dtype, pointwise::Compute::kDouble)(
      t.as<std::byte>() + i * dtype_size(t.dtype), 1, 1, &value);
  return value;
}

// data is weight, grad, states, weight32 (if mixed) for each weight.
template <class P, int group, bool mixed>
void multi_sgd(KernelContext&, const P& p, Inputs in, Outputs out) {
  constexpr bool kMomentum = group - (mixed ? 1 : 0) == 3;
  for (size_t w = 0; w < out.size(); ++w) {
    const Inputs arrays = in.subspan(w * group, group);
    const Operands o{arrays[0], arrays[1], arrays.subspan(2, kMomentum ? 1 : 0),
                     mixed ? &arrays[group - 1] : nullptr, out[w]};
    double lr, wd;
    if constexpr (requires { p.lrs; }) {
      lr = p.lrs[w];
      wd = p.wds[w];
    } else {
      lr = entry(in[in.size() - 2], w);
      wd = entry(in[in.size() - 1], w);
    }
    const auto run = [&](auto c) {
      using C = decltype(c);
      const Sgd<C> base(lr, wd, p.rescale_grad, p.clip_gradient);
      if constexpr (kMomentum)
        run_blocks<C>(o, SgdMom<C>(base, p.momentum));
      else
        run_blocks<C>(o, base);
    };
    if (arrays[0].dtype == DType::kFloat64)
      run(double{});
    else
      run(float{});
  }
}

void multi_sum_sq(KernelContext& ctx, const NumArraysParams&, Inputs in, Outputs out) {
  float* sums = out[0].as<float>();
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorRef result{sums + i, Shape{1}, Strides{1}, DType::kFloat32, true};
    const AxisMask all = reduced_axes("multi_sum_sq", std::nullopt, false, in[i].shape.ndim());
    reduce::run_reduction<reduce::SumSquares>(ctx, all, in[i], result,
                                              [](auto total) { return total; });
  }
}

void multi_lars(KernelContext&, const LarsParams& p, Inputs in, Outputs out) {
  float* rates = out[0].as<float>();
  for (int64_t i = 0; i < out[0].size(); ++i) {
    const auto k = static_cast<size_t>(i);
    const double lr = entry(in[0], k), weight = std::sqrt(entry(in[1], k));
    const double grad = std::sqrt(entry(in[2], k)), wd = entry(in[3], k);
    const double divisor = grad * p.rescale_grad + wd * weight + p.eps;
    rates[i] = static_cast<float>(weight > 0 && grad > 0 ? lr * p.eta * weight / divisor : lr);
  }
}

void reset_arrays(KernelContext&, const NumArraysParams&, Inputs in, Outputs) {
  for (const TensorRef& t : in) std::memset(t.data, 0, t.bytes());
}

// x - x is 0 for finite numbers only.
bool finite(const TensorRef& t) {
  if (!is_floating(t.dtype)) return true;
  const auto load = pointwise::load_fn(t.dtype, pointwise::Compute::kDouble);
  const auto width = static_cast<int64_t>(dtype_size(t.dtype));
  double values[pointwise::kBlock];
  for (int64_t first = 0; first < t.size(); first += pointwise::kBlock) {
    const int64_t n = std::min(pointwise::kBlock, t.size() - first);
    load(t.as<std::byte>() + first * width, 1, n, values);
    double bad = 0;
    for (int64_t i = 0; i < n; ++i) bad += values[i] - values[i] == 0 ? 0.0 : 1.0;
    if (bad > 0) return false;
  }
  return true;
}

template <class P>
void all_finite(KernelContext&, const P&, Inputs in, Outputs out) {
  out[0].as<float>()[0] = std::all_of(in.begin(), in.end(), finite) ? 1.0f : 0.0f;
}

}  // namespace
}  // namespace optimizer

void register_multi_contrib_cpu(OpRegistry&);

void register_multi_updates_cpu(OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  register_multi_contrib_cpu(ops);
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<&multi_sgd<MultiSgdParams, 2, false>>("multi_sgd_update", kCPU);
  ops.kernel<&multi_sgd<MultiSgdMomParams, 3, false>>("multi_sgd_mom_update", kCPU);
  ops.kernel<&multi_sgd<MultiSgdParams, 3, true>>("multi_mp_sgd_update", kCPU);
  ops.kernel<&multi_sgd<MultiSgdMomParams, 4, true>>("multi_mp_sgd_mom_update", kCPU);
  ops.kernel<&multi_sgd<PreloadedSgdParams, 2, false>>("preloaded_multi_sgd_update", kCPU);
  ops.kernel<&multi_sgd<PreloadedSgdMomParams, 3, false>>("preloaded_multi_sgd_mom_update", kCPU);
  ops.kernel<&multi_sgd<PreloadedSgdParams, 3, true>>("preloaded_multi_mp_sgd_update", kCPU);
  ops.kernel<&multi_sgd<PreloadedSgdMomParams, 4, true>>("preloaded_multi_mp_sgd_mom_update", kCPU);
  ops.kernel<&multi_sum_sq>("multi_sum_sq", kCPU);
  ops.kernel<&multi_lars>("multi_lars", kCPU);
  ops.kernel<&reset_arrays>("reset_arrays", kCPU);
  ops.kernel<&all_finite<FiniteParams>>("all_finite", kCPU);
  ops.kernel<&all_finite<MultiFiniteParams>>("multi_all_finite", kCPU);
}

}  // namespace mxlite
