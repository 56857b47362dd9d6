#include "cpp/ops/optimizer/multi.h"

#include <atomic>
#include <cstring>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/optimizer/multi_operands.h"
#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/cpu/reduce/run.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {
namespace {

// `data` contains weight, grad, states and weight32 (if mixed) for each weight, then ExtraArrays.
template <template <class> class Rule, class P, size_t kStates, bool mixed>
void multi(KernelContext&, const Multi<P>& p, Inputs in, Outputs out) {
  const ExtraArrays<P> extra(in, 2 + kStates + (mixed ? 1 : 0), out.size());
  const double factor = extra.scale ? number_at(*extra.scale, 0) : 1;
  const auto run = [&](auto c) {
    using C = decltype(c);
    std::vector<BlockUpdate<C, Rule<C>>> updates;
    updates.reserve(out.size());
    for (size_t w = 0; w < out.size(); ++w) {
      const Operands o = operands_of<kStates, mixed>(in, out, w);
      if (extra.scale && skips(factor)) {
        keep_weight(o);
        continue;
      }
      Rule<C> rule(params_of(p, extra, w));
      if (extra.scale) scale_gradient<C>(rule, factor);
      updates.emplace_back(o, rule);
    }
    run_blocks_of_all(updates);
  };
  if (in[0].dtype == DType::kFloat64)
    run(double{});
  else
    run(float{});
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
    const double lr = number_at(in[0], k), weight = std::sqrt(number_at(in[1], k));
    const double grad = std::sqrt(number_at(in[2], k)), wd = number_at(in[3], k);
    const double divisor = grad * p.rescale_grad + wd * weight + p.eps;
    rates[i] = static_cast<float>(weight > 0 && grad > 0 ? lr * p.eta * weight / divisor : lr);
  }
}

void reset_arrays(KernelContext&, const NumArraysParams&, Inputs in, Outputs) {
  for (const TensorRef& t : in) std::memset(t.data, 0, t.bytes());
}

// Returns whether n values are finite: x - x is 0 for finite numbers only.
template <class C>
bool finite_values(const C* values, int64_t n) {
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (int64_t i = 0; i < n; ++i) bad |= values[i] - values[i] == C(0) ? 0 : 1;
  return bad == 0;
}

template <class C>
bool finite_range(const TensorRef& t, int64_t first, int64_t last) {
  const Lane<C> lane(t);
  C buffer[pointwise::kBlock];
  for (; first < last; first += pointwise::kBlock) {
    const int64_t n = std::min(pointwise::kBlock, last - first);
    if (!finite_values(lane.read(first, n, buffer), n)) return false;
  }
  return true;
}

template <class P>
void all_finite(KernelContext&, const P&, Inputs in, Outputs out) {
  std::vector<int64_t> sizes;
  for (const TensorRef& t : in) sizes.push_back(is_floating(t.dtype) ? t.size() : 0);
  std::atomic<bool> finite{true};
  parallel_blocks(sizes, [&](size_t i, int64_t first, int64_t last) {
    if (!finite.load(std::memory_order_relaxed)) return;
    const bool is_double = in[i].dtype == DType::kFloat64;
    if (!(is_double ? finite_range<double> : finite_range<float>)(in[i], first, last))
      finite.store(false, std::memory_order_relaxed);
  });
  out[0].as<float>()[0] = finite ? 1.0f : 0.0f;
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  for_each_update([&]<class P, template <class> class R, size_t kStates, bool kPreloaded>(
                      const Update<P, R, kStates, kPreloaded>& u) {
    for (const char* form : {"", "preloaded"}) {
      if (*form && !kPreloaded) continue;
      ops.cpu_kernel<cpu::flushing<&multi<R, P, kStates, false>>>(form + multi_name(u.name, false));
      ops.cpu_kernel<cpu::flushing<&multi<R, P, kStates, true>>>(form + multi_name(u.name, true));
    }
  });
  ops.cpu_kernel<cpu::flushing<&multi_sum_sq>>("multi_sum_sq");
  ops.cpu_kernel<cpu::flushing<&multi_lars>>("multi_lars");
  ops.cpu_kernel<&reset_arrays>("reset_arrays");
  ops.cpu_kernel<&all_finite<FiniteParams>>("all_finite");
  ops.cpu_kernel<&all_finite<MultiFiniteParams>>("multi_all_finite");
});

}  // namespace mxlite
