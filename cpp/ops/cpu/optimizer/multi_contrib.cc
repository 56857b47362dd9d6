// AdamW and LAMB over many weights. LAMB needs the norm of each step before it is taken, so the
// step lies in scratch memory.
#include "cpp/ops/optimizer/multi_contrib.h"

#include <array>

#include "cpp/ops/cpu/optimizer/rules.h"

namespace mxlite {
namespace optimizer {
namespace {

double number(const TensorRef& t) {
  double value = 0;
  pointwise::load_fn(t.dtype, pointwise::Compute::kDouble)(t.data, 1, 1, &value);
  return value;
}

// Calls fn(number of the weight, its operands) for each weight.
template <int group, bool mixed, class F>
void for_each_weight(Inputs in, Outputs out, F&& fn) {
  for (size_t w = 0; w < out.size(); ++w) {
    const Inputs arrays = in.subspan(w * group, group);
    fn(w,
       Operands{arrays[0], arrays[1], arrays.subspan(2, 2), mixed ? &arrays[4] : nullptr, out[w]});
  }
}

template <int group, bool mixed>
void multi_adamw(KernelContext&, const MultiAdamWParams& p, Inputs in, Outputs out) {
  const double rescale = number(in.back());
  const bool skip = !std::isfinite(rescale) || rescale == 0;
  for_each_weight<group, mixed>(in, out, [&](size_t w, const Operands& o) {
    if (skip) {
      if (o.out.data != o.weight.data)
        std::copy_n(o.weight.as<std::byte>(), o.weight.bytes(), o.out.as<std::byte>());
      return;
    }
    AdamWParams one;
    one.lr = p.lrs[w];
    one.beta1 = p.beta1;
    one.beta2 = p.beta2;
    one.epsilon = p.epsilon;
    one.wd = p.wds[w];
    one.eta = p.etas[w];
    one.clip_gradient = p.clip_gradient;
    if (o.weight.dtype == DType::kFloat64)
      run_blocks<double>(o, AdamW<double>(one, rescale));
    else
      run_blocks<float>(o, AdamW<float>(one, rescale));
  });
}

// Parts are fixed, so that the sum does not depend on the number of threads.
double norm(const TensorRef& t) {
  constexpr int kParts = 64;
  std::array<double, kParts> sums{};
  const auto load = pointwise::load_fn(t.dtype, pointwise::Compute::kDouble);
  const auto width = static_cast<int64_t>(dtype_size(t.dtype));
  const int64_t size = t.size();
  const bool parallel = size > pointwise::kParallelElements;
#pragma omp parallel for if (parallel) num_threads(parallel ? cpu_threads() : 1)
  for (int part = 0; part < kParts; ++part) {
    double block[pointwise::kBlock];
    const int64_t last = size * (part + 1) / kParts;
    for (int64_t i = size * part / kParts; i < last; i += pointwise::kBlock) {
      const int64_t n = std::min(pointwise::kBlock, last - i);
      load(t.as<std::byte>() + i * width, 1, n, block);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < n; ++k) sum += block[k] * block[k];
      sums[static_cast<size_t>(part)] += sum;
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

template <class C>
struct LambStep {
  C rate;
  void operator()(const Block<C>& b) const {
    MX_FOR_BLOCK(b) b.new_weight[i] = b.weight[i] - rate * b.grad[i];
  }
};

template <class C>
void lamb(KernelContext& ctx, const LambParams& first, const LambStepParams& second,
          const Operands& o) {
  const TensorRef& exact = o.weight32 ? *o.weight32 : o.weight;  // the weight that counts
  TensorRef step = exact;
  step.dtype = DTypeOf<C>::value;
  step.data = ctx.scratch(step.bytes());
  run_blocks<C>({exact, o.grad, o.states, nullptr, step}, Lamb<C>(first));
  double r1 = norm(exact);
  const double r2 = norm(step);
  if (second.lower_bound > 0) r1 = std::max(r1, second.lower_bound);
  if (second.upper_bound > 0) r1 = std::min(r1, second.upper_bound);
  const double rate = r1 == 0 || r2 == 0 ? second.lr : second.lr * r1 / r2;
  run_blocks<C>({o.weight, step, {}, o.weight32, o.out}, LambStep<C>{static_cast<C>(rate)});
}

template <int group, bool mixed>
void multi_lamb(KernelContext& ctx, const MultiLambParams& p, Inputs in, Outputs out) {
  for_each_weight<group, mixed>(in, out, [&](size_t w, const Operands& o) {
    LambParams first;
    first.beta1 = p.beta1;
    first.beta2 = p.beta2;
    first.epsilon = p.epsilon;
    first.t = p.step_count[static_cast<int>(w)];
    first.bias_correction = p.bias_correction;
    first.wd = p.wds[w];
    first.rescale_grad = p.rescale_grad;
    first.clip_gradient = p.clip_gradient;
    const LambStepParams second{p.learning_rates[w], p.lower_bound, p.upper_bound};
    if (o.weight.dtype == DType::kFloat64)
      lamb<double>(ctx, first, second, o);
    else
      lamb<float>(ctx, first, second, o);
  });
}

}  // namespace
}  // namespace optimizer

void register_multi_contrib_cpu(OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<&multi_adamw<4, false>>("_multi_adamw_update", kCPU);
  ops.kernel<&multi_adamw<5, true>>("_multi_mp_adamw_update", kCPU);
  ops.kernel<&multi_lamb<4, false>>("_multi_lamb_update", kCPU);
  ops.kernel<&multi_lamb<5, true>>("_multi_mp_lamb_update", kCPU);
}

}  // namespace mxlite
