#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/cpu/sparse/row_groups.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace optimizer {
namespace {

// Sorted positions of the gradient's rows. The weight is copied first unless it is the output.
struct Rows {
  Rows(KernelContext& ctx, Inputs in, Outputs out)
      : indices(in[2].as<int64_t>()), width(in[0].shape.product(1, in[0].shape.ndim())) {
    const int64_t given = in[2].shape[0];
    order = static_cast<int64_t*>(
        ctx.scratch(static_cast<size_t>(std::max<int64_t>(given, 1)) * sizeof(int64_t)));
    count = sparse::order_by_row(indices, given, in[0].shape[0], order);
    if (out[0].data != in[0].data)
      std::copy_n(in[0].as<std::byte>(), in[0].bytes(), out[0].as<std::byte>());
  }
  // Calls fn(row, first, last) for every row of the gradient.
  void for_each(auto&& fn) const {
    cpu::parallel_ranges(count, width, [&](int64_t begin, int64_t end, int) {
      sparse::for_each_group(indices, order, count, begin, end, fn);
    });
  }

  const int64_t* indices;
  int64_t* order;
  int64_t count, width;
};

// Computes elements [column, column + n) of one row of the summed gradient.
template <class C>
void sum_gradient(const Lane<C>& values, const Rows& rows, int64_t first, int64_t last,
                  int64_t column, int64_t n, C* sum) {
  constexpr int64_t kBlock = pointwise::kBlock;
  alignas(64) C buffer[kBlock];
  std::fill_n(sum, n, C(0));
  for (int64_t i = first; i < last; ++i) {
    const C* const row = values.read(rows.order[i] * rows.width + column, n, buffer);
    for (int64_t j = 0; j < n; ++j) sum[j] += row[j];
  }
}

template <class C, class Rule>
void run_rows(const Rows& rows, Inputs in, Outputs out, const Rule& rule) {
  constexpr int64_t kBlock = pointwise::kBlock;
  const Lane<C> weight(out[0]), values(in[1]);
  const size_t num_states = in.size() - 3;
  Lane<C> states[kMaxStates];
  for (size_t s = 0; s < num_states; ++s) states[s] = Lane<C>(in[3 + s]);
  rows.for_each([&](int64_t row, int64_t first, int64_t last) {
    alignas(64) C grad[kBlock];
    alignas(64) C buffer[1 + kMaxStates][kBlock];
    for (int64_t column = 0; column < rows.width; column += kBlock) {
      const int64_t n = std::min(kBlock, rows.width - column), at = row * rows.width + column;
      sum_gradient(values, rows, first, last, column, n, grad);
      Block<C> b{};
      b.n = n;
      b.new_weight = weight.read(at, n, buffer[0]);
      b.weight = b.new_weight;
      b.grad = grad;
      for (size_t s = 0; s < num_states; ++s) b.state[s] = states[s].read(at, n, buffer[1 + s]);
      rule(b);
      for (size_t s = 0; s < num_states; ++s) states[s].write(b.state[s], at, n);
      weight.write(b.new_weight, at, n);
    }
  });
}

template <template <class> class Rule, class P>
void update_rows(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows(ctx, in, out);
  if (in[0].dtype == DType::kFloat64)
    run_rows<double>(rows, in, out, Rule<double>(p));
  else
    run_rows<float>(rows, in, out, Rule<float>(p));
}

// Keeps one history value per row.
template <class C>
void run_group_adagrad(const GroupAdagradParams& p, const Rows& rows, Inputs in, Outputs out) {
  constexpr int64_t kBlock = pointwise::kBlock;
  const Lane<C> weight(out[0]), values(in[1]), history(in[3]);
  const C bound = bound_of<C>(p.clip_gradient), rescale = static_cast<C>(p.rescale_grad);
  rows.for_each([&](int64_t row, int64_t first, int64_t last) {
    alignas(64) C grad[kBlock], buffer[kBlock];
    const auto scaled_gradient = [&](int64_t column, int64_t n) {
      sum_gradient(values, rows, first, last, column, n, grad);
      for (int64_t j = 0; j < n; ++j) grad[j] = limited(rescale * grad[j], bound);
    };
    C squares = 0;
    for (int64_t column = 0; column < rows.width; column += kBlock) {
      const int64_t n = std::min(kBlock, rows.width - column);
      scaled_gradient(column, n);
      for (int64_t j = 0; j < n; ++j) squares += grad[j] * grad[j];
    }
    C old = 0;
    const C sum = *history.read(row, 1, &old) + squares / static_cast<C>(rows.width);
    history.write(&sum, row, 1);
    const C rate = static_cast<C>(p.lr) / std::sqrt(sum + static_cast<C>(p.epsilon));
    for (int64_t column = 0; column < rows.width; column += kBlock) {
      const int64_t n = std::min(kBlock, rows.width - column), at = row * rows.width + column;
      scaled_gradient(column, n);
      C* const w = weight.read(at, n, buffer);
      for (int64_t j = 0; j < n; ++j) w[j] -= rate * grad[j];
      weight.write(w, at, n);
    }
  });
}

void group_adagrad_rows(KernelContext& ctx, const GroupAdagradParams& p, Inputs in, Outputs out) {
  const Rows rows(ctx, in, out);
  if (in[0].dtype == DType::kFloat64)
    run_group_adagrad<double>(p, rows, in, out);
  else
    run_group_adagrad<float>(p, rows, in, out);
}

}  // namespace
}  // namespace optimizer

static const Registration updates_registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace optimizer;                     // NOLINT: the rules of the dense updates
  const Kernel worker_only{.inline_ok = false};  // each row runs a whole update rule
  ops.cpu_kernel<cpu::flushing<&update_rows<Sgd, SgdParams>>>("_rows_sgd_update", worker_only);
  ops.cpu_kernel<cpu::flushing<&update_rows<SgdMom, SgdMomParams>>>("_rows_sgd_mom_update",
                                                                    worker_only);
  ops.cpu_kernel<cpu::flushing<&update_rows<Adam, AdamParams>>>("_rows_adam_update", worker_only);
  ops.cpu_kernel<cpu::flushing<&update_rows<Ftrl, FtrlParams>>>("_rows_ftrl_update", worker_only);
  ops.cpu_kernel<cpu::flushing<&update_rows<Adagrad, AdagradParams>>>("_rows_adagrad_update",
                                                                      worker_only);
  ops.cpu_kernel<cpu::flushing<&group_adagrad_rows>>("_rows_group_adagrad_update", worker_only);
});

}  // namespace mxlite
