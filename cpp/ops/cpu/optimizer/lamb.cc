// LAMB over many weights in two passes over memory. The first pass updates both means and sums the
// squares of each weight and of its step. The second pass applies the step, which it recomputes
// from the means, because saving it would need as much memory as the weights.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/optimizer/multi_operands.h"
#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {
namespace {

using pointwise::kBlock;

template <class C>
double sum_squares(const C* values, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

// Sums of squares, of a block or of a whole weight.
struct Squares {
  double weight = 0, step = 0;
};

template <class C>
class LambWeight {
 public:
  LambWeight(const Operands& o, const LambUpdateParams& p, double scale)
      : size_(o.out.size()),
        mixed_(o.weight32 != nullptr),
        keeps_step_(o.states[0].dtype != DTypeOf<C>::value),
        weight_(mixed_ ? *o.weight32 : o.weight),
        out_(o.out),
        grad_(o.grad),
        mean_(o.states[0]),
        var_(o.states[1]),
        rule_(p.first_part()),
        second_(p.second_part()) {
    scale_gradient<C>(rule_, scale);
  }
  int64_t size() const { return size_; }
  int64_t num_blocks() const { return (size_ + kBlock - 1) / kBlock; }

  // Half-precision means are rounded, so the step cannot be recomputed from them and must be saved.
  bool keeps_step() const { return keeps_step_; }
  // Sets memory for size() numbers in which the step is saved.
  void keep_step_in(C* step) { step_ = step; }

  // `first` must be a multiple of kBlock. `squares` has an entry for each block of the weight.
  void update_means(int64_t first, int64_t last, Squares* squares) const {
    alignas(64) C buffer[5][kBlock];
    for (; first < last; first += kBlock) {
      Block<C> b{};
      b.n = std::min(kBlock, last - first);
      b.weight = weight_.read(first, b.n, buffer[0]);
      b.grad = grad_.read(first, b.n, buffer[1]);
      b.state[0] = mean_.read(first, b.n, buffer[2]);
      b.state[1] = var_.read(first, b.n, buffer[3]);
      b.new_weight = step_ ? step_ + first : buffer[4];
      rule_(b);
      mean_.write(b.state[0], first, b.n);
      var_.write(b.state[1], first, b.n);
      squares[first / kBlock] = {sum_squares(b.weight, b.n), sum_squares(b.new_weight, b.n)};
    }
  }

  // Sets the norms that determine the length of the step.
  void set_norms(const Squares& squares) {
    double r1 = std::sqrt(squares.weight);
    const double r2 = std::sqrt(squares.step);
    if (second_.lower_bound > 0) r1 = std::max(r1, second_.lower_bound);
    if (second_.upper_bound > 0) r1 = std::min(r1, second_.upper_bound);
    rate_ = static_cast<C>(r1 == 0 || r2 == 0 ? second_.lr : second_.lr * r1 / r2);
  }

  void take_step(int64_t first, int64_t last) const {
    alignas(64) C buffer[3][kBlock];
    for (; first < last; first += kBlock) {
      Block<C> b{};
      b.n = std::min(kBlock, last - first);
      C* const old = weight_.read(first, b.n, buffer[0]);
      b.weight = old;
      b.grad = step_ ? step_ + first : step_of(old, first, b.n, buffer[1]);
      b.new_weight = mixed_ ? old : out_.place(first, buffer[2]);
      LambStep<C>{rate_}(b);
      if (mixed_) weight_.write(b.new_weight, first, b.n);
      out_.write(b.new_weight, first, b.n);
    }
  }

 private:
  // Requires means of type C.
  const C* step_of(const C* weight, int64_t first, int64_t n, C* step) const {
    const C *const mean = mean_.read(first, n, nullptr), *const var = var_.read(first, n, nullptr);
    const Lamb<C> rule = rule_;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) step[i] = rule.step(mean[i], var[i], weight[i]);
    return step;
  }

  int64_t size_;
  bool mixed_, keeps_step_;
  Lane<C> weight_, out_, grad_, mean_, var_;
  Lamb<C> rule_;
  LambStepParams second_;
  C rate_ = 0;
  C* step_ = nullptr;
};

template <class C>
void update(KernelContext& ctx, std::vector<LambWeight<C>>& weights) {
  int64_t blocks = 0, kept = 0;
  std::vector<int64_t> sizes, first_block;
  for (const LambWeight<C>& w : weights) {
    sizes.push_back(w.size());
    first_block.push_back(blocks);
    blocks += w.num_blocks();
    if (w.keeps_step()) kept += w.size();
  }
  cpu::ScratchPlan plan;
  const size_t squares_at = plan.add<Squares>(blocks), steps_at = plan.add<C>(kept);
  void* const scratch = ctx.scratch(plan.bytes());
  auto* const squares = cpu::part<Squares>(scratch, squares_at);
  C* step = cpu::part<C>(scratch, steps_at);
  for (LambWeight<C>& w : weights) {
    if (!w.keeps_step()) continue;
    w.keep_step_in(step);
    step += w.size();
  }
  parallel_blocks(sizes, [&](size_t w, int64_t first, int64_t last) {
    weights[w].update_means(first, last, squares + first_block[w]);
  });
  // Adds blocks in order, so that the sums do not depend on the number of threads.
  for (size_t w = 0; w < weights.size(); ++w) {
    Squares total;
    for (int64_t i = 0; i < weights[w].num_blocks(); ++i) {
      total.weight += squares[first_block[w] + i].weight;
      total.step += squares[first_block[w] + i].step;
    }
    weights[w].set_norms(total);
  }
  parallel_blocks(
      sizes, [&](size_t w, int64_t first, int64_t last) { weights[w].take_step(first, last); });
}

template <bool mixed>
void multi_lamb(KernelContext& ctx, const Multi<LambUpdateParams>& p, Inputs in, Outputs out) {
  const ExtraArrays<LambUpdateParams> extra(in, mixed ? 5 : 4, out.size());
  const double factor = extra.scale ? number_at(*extra.scale, 0) : 1;
  if (extra.scale && skips(factor)) {
    for (size_t w = 0; w < out.size(); ++w) keep_weight(operands_of<2, mixed>(in, out, w));
    return;
  }
  const auto run = [&](auto c) {
    std::vector<LambWeight<decltype(c)>> weights;
    for (size_t w = 0; w < out.size(); ++w)
      weights.emplace_back(operands_of<2, mixed>(in, out, w), params_of(p, extra, w), factor);
    update(ctx, weights);
  };
  const bool is_double = std::ranges::any_of(
      out, [](const TensorRef& weight) { return weight.dtype == DType::kFloat64; });
  if (is_double)
    run(double{});
  else
    run(float{});
}

}  // namespace
}  // namespace optimizer

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace optimizer;  // NOLINT: this folder's own names
  ops.cpu_kernel<cpu::flushing<&multi_lamb<false>>>("_multi_lamb_update");
  ops.cpu_kernel<cpu::flushing<&multi_lamb<true>>>("_multi_mp_lamb_update");
});

}  // namespace mxlite
