// LayerNorm, GroupNorm and InstanceNorm share one computation: each row is normalized to mean 0 and
// variance 1, then each run of its elements has its own gamma and beta.
#include "cpp/ops/nn/layer_norm.h"

#include <cmath>
#include <type_traits>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/nn/normalized_rows.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Rows = NormalizedRows;

// The stride 1 between elements of a row as a compile-time constant, so that loops vectorize.
using One = std::integral_constant<int64_t, 1>;

// Calls fn(i, index of gamma and beta) for the elements of row r.
void for_row(const Rows& rows, int64_t r, auto fn) {
  const int64_t param = rows.first_param(r), length = rows.length, run = rows.run;
  if (run == 1) {
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) fn(i, param + i);
  } else {
    for (int64_t k = 0; k < rows.params_per_row(); ++k) {
      const int64_t same = param + k;
#pragma omp simd
      for (int64_t i = k * run; i < (k + 1) * run; ++i) fn(i, same);
    }
  }
}

struct RowStats {
  double mean, std;
};
template <class Acc, class T, class Step>
RowStats row_stats(const Rows& rows, const T* x, Step step) {
  const double n = static_cast<double>(rows.length);
  const double mean =
      cpu::sum_of<Acc>(rows.length, [=](int64_t i) { return Acc(x[i * step]); }) / n;
  const Acc center = static_cast<Acc>(mean);
  const double var = cpu::sum_of<Acc>(rows.length,
                                      [=](int64_t i) {
                                        const Acc v = Acc(x[i * step]) - center;
                                        return v * v;
                                      }) /
                     n;
  return {mean, std::sqrt(var + rows.eps)};
}

template <class T, class Step>
void forward(const Rows& all_rows, Inputs in, Outputs out, Step given) {
  using Acc = ComputeType<T>;
  cpu::parallel_for(all_rows.count, all_rows.length * 4, [&](int64_t r) {
    const Rows rows = all_rows;
    const Step step = given;
    const T *const gamma = in[1].as<T>(), *const beta = in[2].as<T>();
    const T* const x = in[0].as<T>() + rows.first(r);
    T* const y = out[0].as<T>() + rows.first(r);
    const RowStats stats = row_stats<Acc>(rows, x, step);
    const Acc mean = static_cast<Acc>(stats.mean), scale = static_cast<Acc>(1 / stats.std);
    for_row(rows, r, [=](int64_t i, int64_t param) {
      y[i * step] =
          static_cast<T>((Acc(x[i * step]) - mean) * scale * Acc(gamma[param]) + Acc(beta[param]));
    });
    if (out.size() > 1) {
      out[1].as<T>()[r] = static_cast<T>(mean);
      out[2].as<T>()[r] = static_cast<T>(static_cast<Acc>(stats.std));
    }
  });
}

// Sums over one row of grad * gamma, and of grad * gamma * normalized data. Also adds the row's
// part to the gradients of gamma and beta.
struct RowSums {
  double sum = 0, dot = 0;
};
template <class T, class Acc, class Step>
RowSums row_sums(const Rows& rows, int64_t r, const T* grad, const T* x, const T* all_gamma,
                 Acc mean, Acc scale, Acc* all_gamma_grad, Acc* all_beta_grad, Step step) {
  const int64_t param = rows.first_param(r), length = rows.length, run = rows.run;
  const T* const gamma = all_gamma + param;
  Acc *const gamma_grad = all_gamma_grad + param, *const beta_grad = all_beta_grad + param;
  RowSums s;
  if (run == 1) {
    s.sum =
        cpu::sum_of<Acc>(length, [=](int64_t i) { return Acc(grad[i * step]) * Acc(gamma[i]); });
    s.dot = cpu::sum_of<Acc>(length, [=](int64_t i) {
      return Acc(grad[i * step]) * Acc(gamma[i]) * (Acc(x[i * step]) - mean) * scale;
    });
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) {
      const Acc g = Acc(grad[i * step]);
      gamma_grad[i] += g * (Acc(x[i * step]) - mean) * scale;
      beta_grad[i] += g;
    }
    return s;
  }
  for (int64_t k = 0; k < rows.params_per_row(); ++k) {
    const T *const g = grad + k * run, *const v = x + k * run;
    const double sum = cpu::sum_of<Acc>(run, [=](int64_t i) { return Acc(g[i]); });
    const double dot =
        cpu::sum_of<Acc>(run, [=](int64_t i) { return Acc(g[i]) * (Acc(v[i]) - mean) * scale; });
    gamma_grad[k] += static_cast<Acc>(dot);
    beta_grad[k] += static_cast<Acc>(sum);
    s.sum += sum * static_cast<double>(gamma[k]);
    s.dot += dot * static_cast<double>(gamma[k]);
  }
  return s;
}

// One thread's gradients of gamma and beta. Rows are added to `rows`, which is added to `total` and
// cleared after every kRows rows, because long float sums lose precision.
template <class Acc>
struct ParamSums {
  static constexpr int64_t kRows = 64;
  Acc* rows;
  double* total;
  int64_t size;

  void empty() const {
    for (int64_t i = 0; i < size; ++i) {
      total[i] += static_cast<double>(rows[i]);
      rows[i] = Acc(0);
    }
  }
};

// With g = output_grad * gamma: grad = (g - mean(g) - x_hat * mean(g * x_hat)) / std.
template <class T, class Step>
void backward(KernelContext& ctx, const Rows& all_rows, Inputs in, Outputs out, Step given) {
  using Acc = ComputeType<T>;
  const int64_t params = in[2].size();
  const int threads = cpu_threads();
  const int64_t count = 2 * params * threads;
  auto* const totals = static_cast<double*>(
      ctx.scratch(static_cast<size_t>(count) * (sizeof(double) + sizeof(Acc))));
  Acc* const sums = reinterpret_cast<Acc*>(totals + count);
  std::fill_n(totals, count, 0.0);
  std::fill_n(sums, count, Acc(0));
  // Each part of the rows has its own sums, whichever thread computes the part.
  cpu::parallel_for(threads, all_rows.count / threads * all_rows.length * 4, [&](int64_t part) {
    const int64_t begin = all_rows.count * part / threads;
    const int64_t end = all_rows.count * (part + 1) / threads;
    const Rows rows = all_rows;
    const Step step = given;
    const T* const gamma = in[2].as<T>();
    const int64_t own = part * 2 * params;
    const ParamSums<Acc> own_sums = {sums + own, totals + own, 2 * params};
    Acc* const gamma_grad = own_sums.rows;
    for (int64_t r = begin; r < end; ++r) {
      const T *const grad = in[0].as<T>() + rows.first(r), *const x = in[1].as<T>() + rows.first(r);
      T* const target = out[0].as<T>() + rows.first(r);
      const RowStats stats = row_stats<Acc>(rows, x, step);
      const Acc mean = static_cast<Acc>(stats.mean), scale = static_cast<Acc>(1 / stats.std);
      const RowSums s =
          row_sums(rows, r, grad, x, gamma, mean, scale, gamma_grad, gamma_grad + params, step);
      const Acc offset = static_cast<Acc>(s.sum / static_cast<double>(rows.length));
      const Acc slope = static_cast<Acc>(s.dot / static_cast<double>(rows.length));
      for_row(rows, r, [=](int64_t i, int64_t at) {
        const Acc x_hat = (Acc(x[i * step]) - mean) * scale;
        target[i * step] =
            static_cast<T>((Acc(grad[i * step]) * Acc(gamma[at]) - offset - x_hat * slope) * scale);
      });
      if ((r - begin) % ParamSums<Acc>::kRows == ParamSums<Acc>::kRows - 1) own_sums.empty();
    }
    own_sums.empty();
  });
  for (int64_t i = 0; i < params; ++i) {
    double gamma_sum = 0, beta_sum = 0;
    for (int t = 0; t < threads; ++t) {
      gamma_sum += totals[t * 2 * params + i];
      beta_sum += totals[t * 2 * params + params + i];
    }
    out[1].as<T>()[i] = static_cast<T>(static_cast<Acc>(gamma_sum));
    out[2].as<T>()[i] = static_cast<T>(static_cast<Acc>(beta_sum));
  }
}

// Returns whether LayerNorm along the last axis can use the loops of vector_kernels.h.
template <class P, class T>
bool is_vector_case(const Rows& rows) {
  return std::is_same_v<P, LayerNormParams> && cpu::kHasVectorKernels<T> && rows.inner == 1;
}

template <class T>
void forward_in_vectors(const Rows& rows, Inputs in, Outputs out) {
  const cpu::LayerNormRows<T> call = {in[0].as<T>(),  in[1].as<T>(),  in[2].as<T>(), out[0].as<T>(),
                                      out[1].as<T>(), out[2].as<T>(), rows.length,   rows.eps};
  const auto normalize = cpu::vector_kernels<T>().normalize;
  cpu::parallel_ranges(rows.count, rows.length * 4,
                       [&](int64_t begin, int64_t end, int) { normalize(call, begin, end); });
}

// The gradients of gamma and beta are sums over parts of the rows. Parts do not depend on the
// number of threads; each part sums up to kRows rows in float, and the parts' sums are added in
// double.
template <class T>
void backward_in_vectors(KernelContext& ctx, const Rows& rows, Inputs in, Outputs out) {
  constexpr int64_t kMostParts = 32, kRows = 64;
  const int64_t length = rows.length, parts = std::clamp<int64_t>(rows.count / 16, 1, kMostParts);
  cpu::ScratchPlan plan;
  const size_t totals_at = plan.add<double>(parts * 2 * length);
  const size_t sums_at = plan.add<float>(cpu_threads() * 2 * length);
  void* const scratch = ctx.scratch(plan.bytes());
  auto* const totals = cpu::part<double>(scratch, totals_at);
  auto* const all_sums = cpu::part<float>(scratch, sums_at);
  const cpu::LayerNormGradRows<T> call = {in[0].as<T>(),  in[1].as<T>(), in[2].as<T>(),
                                          out[0].as<T>(), length,        rows.eps};
  const auto kernel = cpu::vector_kernels<T>().normalize_backward;
  const int64_t work = rows.count / parts * length * 4;
  cpu::parallel_ranges(parts, work, [&](int64_t begin, int64_t end, int thread) {
    float* const sums = all_sums + thread * 2 * length;
    for (int64_t part = begin; part < end; ++part) {
      double* const total = totals + part * 2 * length;
      std::fill_n(total, 2 * length, 0.0);
      const int64_t last = rows.count * (part + 1) / parts;
      for (int64_t r = rows.count * part / parts; r < last; r += kRows) {
        std::fill_n(sums, 2 * length, 0.0f);
        kernel(call, r, std::min(r + kRows, last), sums, sums + length);
        for (int64_t i = 0; i < 2 * length; ++i) total[i] += static_cast<double>(sums[i]);
      }
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < 2 * length; ++i) totals[i] += totals[part * 2 * length + i];
  for (int64_t i = 0; i < length; ++i) {
    out[1].as<T>()[i] = static_cast<T>(static_cast<float>(totals[i]));
    out[2].as<T>()[i] = static_cast<T>(static_cast<float>(totals[length + i]));
  }
}

template <class P>
void norm_native(KernelContext&, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[0].shape, in[1].shape);
  dispatch_floating("LayerNorm", in[0].dtype, [&]<class T>(T) {
    if constexpr (cpu::kHasVectorKernels<T>)
      if (is_vector_case<P, T>(rows)) return forward_in_vectors<T>(rows, in, out);
    rows.inner == 1 ? forward<T>(rows, in, out, One()) : forward<T>(rows, in, out, rows.inner);
  });
}

template <class P>
void norm_backward_native(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[1].shape, in[2].shape);
  dispatch_floating("LayerNorm", in[1].dtype, [&]<class T>(T) {
    if constexpr (cpu::kHasVectorKernels<T>)
      if (is_vector_case<P, T>(rows)) return backward_in_vectors<T>(ctx, rows, in, out);
    rows.inner == 1 ? backward<T>(ctx, rows, in, out, One())
                    : backward<T>(ctx, rows, in, out, rows.inner);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<norm_native<LayerNormParams>>>("LayerNorm");
  ops.cpu_kernel<cpu::flushing<norm_native<GroupNormParams>>>("GroupNorm");
  ops.cpu_kernel<cpu::flushing<norm_native<InstanceNormParams>>>("InstanceNorm");
  ops.cpu_kernel<cpu::flushing<norm_backward_native<LayerNormParams>>>("_layer_norm_backward");
  ops.cpu_kernel<cpu::flushing<norm_backward_native<GroupNormParams>>>("_group_norm_backward");
  ops.cpu_kernel<cpu::flushing<norm_backward_native<InstanceNormParams>>>(
      "_instance_norm_backward");
});

}  // namespace mxlite
