#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {
namespace {

// Inputs: weight, grad, states, then the float32 weight if mixed, then the scale if it is an input.
template <template <class> class Rule, class P, size_t kStates, bool mixed>
void update(KernelContext&, const P& p, Inputs in, Outputs out) {
  constexpr size_t kArrays = 2 + kStates + (mixed ? 1 : 0);
  const Operands o{in[0], in[1], in.subspan(2, kStates), mixed ? &in[kArrays - 1] : nullptr,
                   out[0]};
  run_update<Rule>(p, o, in.size() > kArrays ? &in[kArrays] : nullptr);
}

// Writes the step to `out` and does not change the weight.
template <bool mixed>
void lamb_phase1(KernelContext&, const LambParams& p, Inputs in, Outputs out) {
  const Operands o{mixed ? in[4] : in[0], in[1], in.subspan(2, 2), nullptr, out[0]};
  run_update<Lamb>(p, o);
}

template <bool mixed>
void lamb_phase2(KernelContext&, const LambStepParams& p, Inputs in, Outputs out) {
  double r1 = number_at(in[2], 0);
  const double r2 = number_at(in[3], 0);
  if (p.lower_bound >= 0) r1 = std::max(r1, p.lower_bound);
  if (p.upper_bound >= 0) r1 = std::min(r1, p.upper_bound);
  const double rate = r1 == 0 || r2 == 0 ? p.lr : p.lr * r1 / r2;
  const Operands o{in[0], in[1], {}, mixed ? &in[4] : nullptr, out[0]};
  if (in[0].dtype == DType::kFloat64)
    run_blocks<double>(o, LambStep<double>{rate});
  else
    run_blocks<float>(o, LambStep<float>{static_cast<float>(rate)});
}

// Keeps one history value per row.
void group_adagrad(KernelContext&, const GroupAdagradParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const int64_t rows = in[0].shape[0], width = in[0].size() / rows;
  dispatch_floating("_contrib_group_adagrad_update", in[0].dtype, [&](auto t) {
    using T = decltype(t);
    using C = ComputeType<T>;
    const T *weight = in[0].as<T>(), *grad = in[1].as<T>();
    T *history = in[2].as<T>(), *result = out[0].as<T>();
    const C bound = bound_of<C>(p.clip_gradient), rescale = static_cast<C>(p.rescale_grad);
    const auto scaled = [&](int64_t i) {
      return limited(rescale * static_cast<C>(grad[i]), bound);
    };
    for (int64_t row = 0; row < rows; ++row) {
      C squares = 0;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) squares += scaled(i) * scaled(i);
      const C sum = static_cast<C>(history[row]) + squares / static_cast<C>(width);
      history[row] = T(sum);
      const C rate = static_cast<C>(p.lr) / std::sqrt(sum + static_cast<C>(p.epsilon));
      for (int64_t i = row * width; i < (row + 1) * width; ++i)
        result[i] = T(static_cast<C>(weight[i]) - rate * scaled(i));
    }
  });
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  for_each_update([&]<class P, template <class> class R, size_t kStates, bool kPreloaded>(
                      const Update<P, R, kStates, kPreloaded>& u) {
    ops.cpu_kernel<cpu::flushing<&update<R, P, kStates, false>>>(u.name);
    if (u.mixed_name) ops.cpu_kernel<cpu::flushing<&update<R, P, kStates, true>>>(u.mixed_name);
  });
  ops.cpu_kernel<cpu::flushing<&lamb_phase1<false>>>("lamb_update_phase1");
  ops.cpu_kernel<cpu::flushing<&lamb_phase1<true>>>("mp_lamb_update_phase1");
  ops.cpu_kernel<cpu::flushing<&lamb_phase2<false>>>("lamb_update_phase2");
  ops.cpu_kernel<cpu::flushing<&lamb_phase2<true>>>("mp_lamb_update_phase2");
  ops.cpu_kernel<cpu::flushing<&group_adagrad>>("_contrib_group_adagrad_update");
});

}  // namespace mxlite
