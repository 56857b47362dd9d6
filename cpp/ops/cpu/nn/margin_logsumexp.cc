#include "cpp/ops/nn/margin_logsumexp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void dispatch(DType dtype, auto&& fn) { dtype == DType::kFloat64 ? fn(double{}) : fn(float{}); }

void forward(KernelContext& ctx, const MarginLogsumexpParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].shape[in[0].shape.ndim() - 1];
  const int64_t* const positions = cpu::index_values(ctx, in[1]);
  dispatch(in[0].dtype, [&]<class T>(T) {
    using Limits = std::numeric_limits<T>;
    const T scale = static_cast<T>(p.scale);
    cpu::parallel_for(in[1].size(), 4 * n, [&](int64_t row) {
      const T* const x = in[0].as<T>() + row * n;
      const int64_t at = positions[row];
      const bool here = at >= 0 && at < n;
      const double target = here ? p.target(static_cast<double>(x[at])).logit : 0;
      const int64_t before = here ? at : n, after = here ? at + 1 : n;
      T highest = here ? static_cast<T>(target) : -Limits::infinity();
      for (const auto& [begin, end] : {std::pair{int64_t{0}, before}, std::pair{after, n}}) {
#pragma omp simd reduction(max : highest)
        for (int64_t i = begin; i < end; ++i) {
          const T z = scale * x[i];
          highest = z > highest ? z : highest;
        }
      }
      // With an infinite `highest`, differences would be NaN.
      highest = std::clamp(highest, Limits::lowest(), Limits::max());
      const auto sum_from = [=](const T* z, int64_t count) {
        return cpu::sum_of<T>(count,
                              [=](int64_t i) { return pointwise::exp_of(scale * z[i] - highest); });
      };
      double sum = sum_from(x, before) + sum_from(x + after, n - after);
      const T distance =
          here ? static_cast<T>(target - static_cast<double>(highest)) : -Limits::infinity();
      if (here) sum += std::exp(static_cast<double>(distance));
      out[0].as<T>()[row] = highest;
      out[1].as<T>()[row] = static_cast<T>(std::log(sum));
      out[2].as<T>()[row] = distance;
    });
  });
}

void backward(KernelContext& ctx, const MarginLogsumexpParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].shape[in[0].shape.ndim() - 1];
  const int64_t* const positions = cpu::index_values(ctx, in[1]);
  dispatch(in[0].dtype, [&]<class T>(T) {
    const T scale = static_cast<T>(p.scale);
    cpu::parallel_for(in[1].size(), 4 * n, [&](int64_t row) {
      const T* const x = in[0].as<T>() + row * n;
      T* const grad = out[0].as<T>() + row * n;
      const T highest = in[2].as<T>()[row], given = in[3].as<T>()[row];
      // If the logarithm of the sum is -infinity, all exponentials are 0.
      const T total = given == -std::numeric_limits<T>::infinity() ? T(0) : given;
      const T sum_grad = in[4].as<T>()[row], factor = sum_grad * scale;
      const int64_t at = positions[row];
      const bool here = at >= 0 && at < n;
      const MarginTarget target = here ? p.target(static_cast<double>(x[at])) : MarginTarget{};
#pragma omp simd
      for (int64_t i = 0; i < n; ++i)
        grad[i] = factor * pointwise::exp_of(scale * x[i] - highest - total);
      if (!here) return;
      const double share =
          std::exp(target.logit - static_cast<double>(highest) - static_cast<double>(total));
      grad[at] = static_cast<T>(target.slope * (static_cast<double>(sum_grad) * share +
                                                static_cast<double>(in[5].as<T>()[row])));
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<forward>>("_contrib_margin_logsumexp", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<backward>>("_contrib_margin_logsumexp_backward", kWorkerOnly);
});

}  // namespace mxlite
