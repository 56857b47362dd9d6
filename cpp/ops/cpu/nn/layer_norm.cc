// LayerNorm, GroupNorm and InstanceNorm are one computation on rows: each row gets mean 0 and
// variance 1, then runs of its elements get a gamma and beta of their own.
#include "cpp/ops/nn/layer_norm.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/nn/register.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

struct Rows {
  int64_t count, length;
  int64_t inner = 1;  // rows that are interleaved; 1: a row is contiguous
  int64_t cycle = 1;  // rows r and r + cycle share gamma
  int64_t run = 1;    // neighbouring elements with the same gamma
  double eps;

  int64_t first(int64_t r) const { return r / inner * length * inner + r % inner; }
  int64_t params_per_row() const { return length / std::max<int64_t>(run, 1); }
  int64_t first_param(int64_t r) const { return r % cycle * params_per_row(); }
};

Rows make_rows(const LayerNormParams& p, const Shape& data, const Shape&) {
  const ChannelBlocks b = channel_blocks(data, p.axis);
  return {.count = b.outer * b.inner, .length = b.channels, .inner = b.inner, .eps = p.eps};
}
Rows make_rows(const GroupNormParams& p, const Shape& data, const Shape& gamma) {
  const int64_t pixels = data.product(2, data.ndim());
  return {.count = data[0] * p.num_groups,
          .length = data[1] / p.num_groups * pixels,
          .cycle = p.num_groups,
          .run = gamma[0] > 0 ? data[1] / gamma[0] * pixels : pixels,
          .eps = p.eps};
}
Rows make_rows(const InstanceNormParams& p, const Shape& data, const Shape&) {
  const int64_t pixels = data.product(2, data.ndim());
  return {
      .count = data[0] * data[1], .length = pixels, .cycle = data[1], .run = pixels, .eps = p.eps};
}

// Sum of value(i) for i below n: short pieces in Acc, their sums in double.
template <class Acc, class F>
double sum_of(int64_t n, F&& value) {
  constexpr int64_t kPiece = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, n);
    Acc sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = begin; i < end; ++i) sum += value(i);
    total += sum;
  }
  return total;
}

// fn(i, parameter index) for the elements of row r.
template <class F>
void for_row(const Rows& rows, int64_t r, F&& fn) {
  const int64_t param = rows.first_param(r);
  if (rows.run == 1) {
    for (int64_t i = 0; i < rows.length; ++i) fn(i, param + i);
  } else {
    for (int64_t k = 0; k < rows.params_per_row(); ++k)
      for (int64_t i = k * rows.run; i < (k + 1) * rows.run; ++i) fn(i, param + k);
  }
}

struct RowStats {
  double mean, std;
};
template <class Acc, class T>
RowStats row_stats(const Rows& rows, const T* x, int64_t step) {
  const double n = static_cast<double>(rows.length);
  const double mean = sum_of<Acc>(rows.length, [&](int64_t i) { return Acc(x[i * step]); }) / n;
  const Acc center = static_cast<Acc>(mean);
  const double var = sum_of<Acc>(rows.length,
                                 [&](int64_t i) {
                                   const Acc v = Acc(x[i * step]) - center;
                                   return v * v;
                                 }) /
                     n;
  return {mean, std::sqrt(var + rows.eps)};
}

template <class T, bool kContiguous>
void forward(const Rows& rows, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  const T *gamma = in[1].as<T>(), *beta = in[2].as<T>();
  const int64_t step = kContiguous ? 1 : rows.inner;
  cpu::parallel_for(rows.count, rows.length * 4, [&](int64_t r) {
    const T* x = in[0].as<T>() + rows.first(r);
    T* y = out[0].as<T>() + rows.first(r);
    const RowStats stats = row_stats<Acc>(rows, x, step);
    const Acc mean = static_cast<Acc>(stats.mean), scale = static_cast<Acc>(1 / stats.std);
    for_row(rows, r, [&](int64_t i, int64_t param) {
      y[i * step] =
          static_cast<T>((Acc(x[i * step]) - mean) * scale * Acc(gamma[param]) + Acc(beta[param]));
    });
    if (out.size() > 1) {
      out[1].as<T>()[r] = static_cast<T>(mean);
      out[2].as<T>()[r] = static_cast<T>(static_cast<Acc>(stats.std));
    }
  });
}

// With g = output_grad * gamma: grad = (g - mean(g) - x_hat * mean(g * x_hat)) / std.
template <class T, bool kContiguous>
void backward(KernelContext& ctx, const Rows& rows, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  const T* gamma = in[2].as<T>();
  const int64_t step = kContiguous ? 1 : rows.inner, params = in[2].size();
  const int threads = cpu_threads();
  Acc* sums =
      static_cast<Acc*>(ctx.scratch(static_cast<size_t>(2 * params * threads) * sizeof(Acc)));
  std::fill_n(sums, 2 * params * threads, Acc(0));
  cpu::parallel_ranges(rows.count, rows.length * 4, [&](int64_t begin, int64_t end, int thread) {
    Acc* gamma_grad = sums + thread * 2 * params;
    Acc* beta_grad = gamma_grad + params;
    for (int64_t r = begin; r < end; ++r) {
      const T *grad = in[0].as<T>() + rows.first(r), *x = in[1].as<T>() + rows.first(r);
      T* target = out[0].as<T>() + rows.first(r);
      const RowStats stats = row_stats<Acc>(rows, x, step);
      const Acc mean = static_cast<Acc>(stats.mean), scale = static_cast<Acc>(1 / stats.std);
      double sum = 0, dot = 0;
      const int64_t param = rows.first_param(r);
      if (rows.run == 1) {
        sum = sum_of<Acc>(rows.length,
                          [&](int64_t i) { return Acc(grad[i * step]) * Acc(gamma[param + i]); });
        dot = sum_of<Acc>(rows.length, [&](int64_t i) {
          return Acc(grad[i * step]) * Acc(gamma[param + i]) * (Acc(x[i * step]) - mean) * scale;
        });
        for (int64_t i = 0; i < rows.length; ++i) {
          const Acc g = Acc(grad[i * step]);
          gamma_grad[param + i] += g * (Acc(x[i * step]) - mean) * scale;
          beta_grad[param + i] += g;
        }
      } else {
        for (int64_t k = 0; k < rows.params_per_row(); ++k) {
          const T *g = grad + k * rows.run, *v = x + k * rows.run;
          const double run_sum = sum_of<Acc>(rows.run, [&](int64_t i) { return Acc(g[i]); });
          const double run_dot = sum_of<Acc>(
              rows.run, [&](int64_t i) { return Acc(g[i]) * (Acc(v[i]) - mean) * scale; });
          gamma_grad[param + k] += static_cast<Acc>(run_dot);
          beta_grad[param + k] += static_cast<Acc>(run_sum);
          sum += run_sum * static_cast<double>(gamma[param + k]);
          dot += run_dot * static_cast<double>(gamma[param + k]);
        }
      }
      const Acc offset = static_cast<Acc>(sum / static_cast<double>(rows.length));
      const Acc slope = static_cast<Acc>(dot / static_cast<double>(rows.length));
      for_row(rows, r, [&](int64_t i, int64_t at) {
        const Acc x_hat = (Acc(x[i * step]) - mean) * scale;
        target[i * step] =
            static_cast<T>((Acc(grad[i * step]) * Acc(gamma[at]) - offset - x_hat * slope) * scale);
      });
    }
  });
  for (int64_t i = 0; i < params; ++i) {
    Acc gamma_sum = 0, beta_sum = 0;
    for (int t = 0; t < threads; ++t) {
      gamma_sum += sums[t * 2 * params + i];
      beta_sum += sums[t * 2 * params + params + i];
    }
    out[1].as<T>()[i] = static_cast<T>(gamma_sum);
    out[2].as<T>()[i] = static_cast<T>(beta_sum);
  }
}

template <class P>
void norm_native(KernelContext&, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[0].shape, in[1].shape);
  dispatch_floating("LayerNorm", in[0].dtype, [&]<class T>(T) {
    rows.inner == 1 ? forward<T, true>(rows, in, out) : forward<T, false>(rows, in, out);
  });
}

template <class P>
void norm_backward_native(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Rows rows = make_rows(p, in[1].shape, in[2].shape);
  dispatch_floating("LayerNorm", in[1].dtype, [&]<class T>(T) {
    rows.inner == 1 ? backward<T, true>(ctx, rows, in, out)
                    : backward<T, false>(ctx, rows, in, out);
  });
}

}  // namespace

void register_layer_norm_cpu(OpRegistry& ops) {
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<norm_native<LayerNormParams>>("LayerNorm", kCPU);
  ops.kernel<norm_native<GroupNormParams>>("GroupNorm", kCPU);
  ops.kernel<norm_native<InstanceNormParams>>("InstanceNorm", kCPU);
  ops.kernel<norm_backward_native<LayerNormParams>>("_layer_norm_backward", kCPU);
  ops.kernel<norm_backward_native<GroupNormParams>>("_group_norm_backward", kCPU);
  ops.kernel<norm_backward_native<InstanceNormParams>>("_instance_norm_backward", kCPU);
}

}  // namespace mxlite
