// A thread processes whole rows. Sums are computed in double, because rows may be long.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "cpp/ops/cpu/convert_run.h"
#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Calls fn(row, its elements as ComputeType, scratch memory of a row's size). Rows of 16-bit floats
// are converted, because loops over float16 do not vectorize.
template <class T>
void for_rows(int64_t rows, int64_t n, const T* data, auto&& fn) {
  using Acc = ComputeType<T>;
  constexpr bool kConverts = !std::is_same_v<T, Acc>;
  const auto size = static_cast<size_t>(kConverts ? n * cpu_threads() : 0);
  const auto memory = std::make_unique_for_overwrite<Acc[]>(size);
  cpu::parallel_ranges(rows, 4 * n, [&](int64_t begin, int64_t end, int thread) {
    Acc* const block = kConverts ? memory.get() + thread * n : nullptr;
    for (int64_t row = begin; row < end; ++row) {
      if constexpr (kConverts) {
        cpu::convert_run(data + row * n, block, n);
        fn(row, block, block);
      } else {
        fn(row, data + row * n, block);
      }
    }
  });
}

void pick_log_softmax(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = in[0].shape[in[0].shape.ndim() - 1];
  const int64_t* const index = cpu::index_values(ctx, in[1]);
  dispatch_floating("pick_log_softmax", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for_rows(in[1].size(), n, in[0].as<T>(), [&](int64_t row, const Acc* x, Acc*) {
      Acc top = -std::numeric_limits<Acc>::infinity();
#pragma omp simd reduction(max : top)
      for (int64_t k = 0; k < n; ++k) top = x[k] > top ? x[k] : top;
      // If all elements of a row are -inf, the result is NaN, as in log_softmax.
      const double sum =
          cpu::sum_of<Acc>(n, [=](int64_t k) { return pointwise::exp_of_negative(x[k] - top); });
      const Acc scale = static_cast<Acc>(std::log(sum));
      out[1].as<Acc>()[2 * row] = top;
      out[1].as<Acc>()[2 * row + 1] = scale;
      const int64_t at = std::clamp<int64_t>(index[row], 0, n - 1);
      out[0].as<T>()[row] = static_cast<T>(x[at] - top - scale);
    });
  });
}

void backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = in[1].shape[in[1].shape.ndim() - 1];
  const int64_t* const index = cpu::index_values(ctx, in[2]);
  dispatch_floating("pick_log_softmax", in[1].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for_rows(in[2].size(), n, in[1].as<T>(), [&](int64_t row, const Acc* x, Acc* block) {
      const Acc top = in[3].as<Acc>()[2 * row], scale = in[3].as<Acc>()[2 * row + 1];
      const Acc grad = static_cast<Acc>(in[0].as<T>()[row]);
      T* const result = out[0].as<T>() + row * n;
      Acc* to = block;
      if constexpr (std::is_same_v<T, Acc>) to = result;
#pragma omp simd
      for (int64_t k = 0; k < n; ++k)
        to[k] = -grad * pointwise::exp_of_negative(x[k] - top - scale);
      to[std::clamp<int64_t>(index[row], 0, n - 1)] += grad;
      if constexpr (!std::is_same_v<T, Acc>) cpu::convert_run(block, result, n);
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<pick_log_softmax>>("_contrib_pick_log_softmax", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<backward>>("_pick_log_softmax_backward", kWorkerOnly);
});

}  // namespace mxlite
