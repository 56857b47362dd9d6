#include "cpp/ops/contrib/count_sketch.h"

#include <algorithm>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void check_hash(const int64_t* hash, int64_t count, int64_t buckets) {
  for (int64_t i = 0; i < count; ++i)
    MX_CHECK_KIND(hash[i] >= 0 && hash[i] < buckets, ErrorKind::kIndex, "_contrib_count_sketch: h[",
                  i, "] must be from 0 to ", buckets - 1, ", got ", hash[i]);
}

void count_sketch_native(KernelContext& ctx, const CountSketchParams& p, Inputs in, Outputs out) {
  const int64_t depth = in[1].size(), rows = in[0].shape.product(0, in[0].shape.ndim() - 1);
  dispatch_floating("count_sketch", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    // Memory after the indices holds a row of sums per thread; Acc is at most as wide as an index.
    int64_t* rest = nullptr;
    const int64_t* hash = cpu::index_values(ctx, in[1], p.out_dim * cpu_threads(), &rest);
    check_hash(hash, depth, p.out_dim);
    const T* sign = in[2].as<T>();
    cpu::parallel_ranges(rows, depth + p.out_dim, [&](int64_t begin, int64_t end, int thread) {
      Acc* sum = reinterpret_cast<Acc*>(rest + thread * p.out_dim);
      for (int64_t r = begin; r < end; ++r) {
        const T* x = in[0].as<T>() + r * depth;
        std::fill_n(sum, p.out_dim, Acc(0));
        for (int64_t i = 0; i < depth; ++i)
          sum[hash[i]] += static_cast<Acc>(sign[i]) * static_cast<Acc>(x[i]);
        T* y = out[0].as<T>() + r * p.out_dim;
        for (int64_t k = 0; k < p.out_dim; ++k) y[k] = static_cast<T>(sum[k]);
      }
    });
  });
}

void count_sketch_backward_native(KernelContext& ctx, const CountSketchParams& p, Inputs in,
                                  Outputs out) {
  const int64_t depth = in[1].size(), rows = in[0].shape.product(0, in[0].shape.ndim() - 1);
  const int64_t* hash = cpu::index_values(ctx, in[1]);
  check_hash(hash, depth, p.out_dim);
  dispatch_floating("count_sketch", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const T* sign = in[2].as<T>();
    cpu::parallel_for(rows, depth, [&](int64_t r) {
      const T* grad = in[0].as<T>() + r * p.out_dim;
      T* y = out[0].as<T>() + r * depth;
      for (int64_t i = 0; i < depth; ++i)
        y[i] = static_cast<T>(static_cast<Acc>(sign[i]) * static_cast<Acc>(grad[hash[i]]));
    });
  });
}

}  // namespace

static const Registration count_sketch_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<count_sketch_native>("_contrib_count_sketch", {.inline_ok = false});
  ops.cpu_kernel<count_sketch_backward_native>("_count_sketch_backward", {.inline_ok = false});
});

}  // namespace mxlite
