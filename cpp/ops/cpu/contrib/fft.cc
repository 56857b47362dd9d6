#include "cpp/ops/contrib/fft.h"

#include "cpp/ops/cpu/contrib/fft_plan.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// load(row, work) reads the numbers of a row; store(row, result) writes its result.
template <class R, class Load, class Store>
void transform(KernelContext& ctx, int64_t rows, int64_t n, Load&& load, Store&& store) {
  using Plan = cpu::FftPlan<R>;
  if (rows == 0 || n == 0) return;
  cpu::ScratchPlan memory;
  const size_t table_at = memory.add<cpu::Complex<R>>(Plan::table_size(n));
  const size_t work_at = memory.add<cpu::Complex<R>>(Plan::work_size(n) * cpu_threads());
  void* block = ctx.scratch(memory.bytes());
  cpu::Complex<R>* works = cpu::part<cpu::Complex<R>>(block, work_at);
  const Plan plan(n, cpu::part<cpu::Complex<R>>(block, table_at), works);
  cpu::parallel_ranges(rows, Plan::work_size(n) * 8, [&](int64_t begin, int64_t end, int thread) {
    cpu::Complex<R>* work = works + thread * Plan::work_size(n);
    for (int64_t r = begin; r < end; ++r) {
      load(r, work);
      store(r, plan.run(work));
    }
  });
}

// Calls fn(type of the row, type of the computation). Lengths that need Bluestein's sums are
// computed in double.
void dispatch_precision(DType dtype, int64_t n, auto&& fn) {
  dispatch_floating("fft", dtype, [&]<class T>(T t) {
    if (fft::power_of_two(n) && !std::is_same_v<T, double>)
      fn(t, float{});
    else
      fn(t, double{});
  });
}

template <class T, class R>
R load_as(T v) {
  return static_cast<R>(static_cast<ComputeType<T>>(v));
}
template <class T, class R>
T store_as(R v) {
  return static_cast<T>(static_cast<ComputeType<T>>(v));
}

void fft_native(KernelContext& ctx, const FftParams&, Inputs in, Outputs out) {
  const int64_t n = in[0].shape.back(), rows = in[0].shape.product(0, in[0].shape.ndim() - 1);
  dispatch_precision(in[0].dtype, n, [&]<class T, class R>(T, R) {
    transform<R>(
        ctx, rows, n,
        [&](int64_t r, cpu::Complex<R>* to) {
          const T* x = in[0].as<T>() + r * n;
          for (int64_t k = 0; k < n; ++k) to[k] = {load_as<T, R>(x[k]), R(0)};
        },
        [&](int64_t r, const cpu::Complex<R>* from) {
          T* y = out[0].as<T>() + r * 2 * n;
          for (int64_t k = 0; k < n; ++k) {
            y[2 * k] = store_as<T, R>(from[k].re);
            y[2 * k + 1] = store_as<T, R>(from[k].im);
          }
        });
  });
}

// The real part of the inverse transform equals that of the transform of the conjugates.
void ifft_native(KernelContext& ctx, const FftParams&, Inputs in, Outputs out) {
  const int64_t n = out[0].shape.back(), rows = out[0].shape.product(0, out[0].shape.ndim() - 1);
  dispatch_precision(in[0].dtype, n, [&]<class T, class R>(T, R) {
    transform<R>(
        ctx, rows, n,
        [&](int64_t r, cpu::Complex<R>* to) {
          const T* x = in[0].as<T>() + r * 2 * n;
          for (int64_t k = 0; k < n; ++k)
            to[k] = {load_as<T, R>(x[2 * k]), -load_as<T, R>(x[2 * k + 1])};
        },
        [&](int64_t r, const cpu::Complex<R>* from) {
          T* y = out[0].as<T>() + r * n;
          for (int64_t k = 0; k < n; ++k) y[k] = store_as<T, R>(from[k].re);
        });
  });
}

}  // namespace

static const Registration fft_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<fft_native>("_contrib_fft", {.inline_ok = false});
  ops.cpu_kernel<ifft_native>("_contrib_ifft", {.inline_ok = false});
});

}  // namespace mxlite
