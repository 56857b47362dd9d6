// The parts of csr arrays come from users. Rows are clipped to the stored values and columns out of
// range are skipped, so that invalid arrays give wrong values but no invalid memory access.
#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite {
namespace sparse {
namespace {

struct Csr {
  Csr(const TensorRef& indices, const TensorRef& indptr, int64_t cols = 0)
      : columns(indices.as<int64_t>()),
        starts(indptr.as<int64_t>()),
        rows(indptr.shape[0] - 1),
        cols(cols),
        nnz(indices.shape[0]) {}
  int64_t begin(int64_t row) const { return std::clamp<int64_t>(starts[row], 0, nnz); }
  int64_t end(int64_t row) const { return std::clamp(starts[row + 1], begin(row), nnz); }
  bool inside(int64_t k) const { return columns[k] >= 0 && columns[k] < cols; }

  const int64_t* columns;
  const int64_t* starts;
  int64_t rows, cols, nnz;
};

template <class T>
void zero(T* out, int64_t n) {
  std::fill_n(out, n, T(0));
}

// Computes row by row. Sums are accumulated in the compute type, strip by strip.
template <class T>
void multiply(const Csr& csr, const T* data, const T* rhs, int64_t n, T* out) {
  using Sum = ComputeType<T>;
  constexpr int64_t kStrip = 256;
  const int64_t work = n * (1 + csr.nnz / std::max<int64_t>(csr.rows, 1));
  cpu::parallel_ranges(csr.rows, work, [&](int64_t first, int64_t last, int) {
    Sum sums[kStrip];
    for (int64_t r = first; r < last; ++r)
      for (int64_t j0 = 0; j0 < n; j0 += kStrip) {
        const int64_t width = std::min(kStrip, n - j0);
        std::fill_n(sums, width, Sum(0));
        for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k) {
          if (!csr.inside(k)) continue;
          const Sum v = static_cast<Sum>(data[k]);
          const T* const row = rhs + csr.columns[k] * n + j0;
          for (int64_t j = 0; j < width; ++j) sums[j] += v * static_cast<Sum>(row[j]);
        }
        for (int64_t j = 0; j < width; ++j) out[r * n + j0 + j] = static_cast<T>(sums[j]);
      }
  });
}

// Every thread reads all stored values and uses the values of its own columns. So no two threads
// write the same element, and sums do not depend on the number of threads.
template <class T, class Sum>
void multiply_transposed(const Csr& csr, const T* data, const T* rhs, int64_t n, Sum* out) {
  const auto work = static_cast<double>(n * (csr.cols + csr.nnz));
  run_parts(csr.cols, work * kElementNanoseconds, [&](int64_t first, int64_t last) {
    zero(out + first * n, (last - first) * n);
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k) {
        const int64_t c = csr.columns[k];
        if (c < first || c >= last) continue;
        const Sum v = static_cast<Sum>(data[k]);
        for (int64_t j = 0; j < n; ++j) out[c * n + j] += v * static_cast<Sum>(rhs[r * n + j]);
      }
  });
}

void csr_dot(KernelContext& ctx, const CsrDotParams& p, Inputs in, Outputs out) {
  const Csr csr(in[1], in[2], p.shape[1]);
  const int64_t n = in[3].shape[1];
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T *data = in[0].as<T>(), *rhs = in[3].as<T>();
    T* const to = out[0].as<T>();
    using Sum = ComputeType<T>;
    if (!p.transpose) {
      multiply(csr, data, rhs, n, to);
    } else if constexpr (std::is_same_v<T, Sum>) {
      multiply_transposed(csr, data, rhs, n, to);
    } else {
      auto* sums = static_cast<Sum*>(
          ctx.scratch(static_cast<size_t>(std::max<int64_t>(out[0].size(), 1)) * sizeof(Sum)));
      multiply_transposed(csr, data, rhs, n, sums);
      cpu::convert(sums, to, out[0].size());
    }
  });
}

void csr_sampled_dot(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const Csr csr(in[2], in[3], in[1].shape[0]);
  const int64_t n = in[0].shape[1];
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Sum = ComputeType<T>;
    const T *lhs = in[0].as<T>(), *rhs = in[1].as<T>();
    T* const to = out[0].as<T>();
    zero(to, csr.nnz);
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k) {
        if (!csr.inside(k)) continue;
        Sum sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += static_cast<Sum>(lhs[r * n + j]) * static_cast<Sum>(rhs[csr.columns[k] * n + j]);
        to[k] = static_cast<T>(sum);
      }
  });
}

void csr_spread(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const Csr csr(in[0], in[1]);  // the first input only gives the number of stored values
  const int64_t n = in[2].shape[1];
  dispatch_dtype(in[2].dtype, [&]<class T>(T) {
    using Sum = ComputeType<T>;
    const T *data = in[0].as<T>(), *rhs = in[2].as<T>();
    T* const to = out[0].as<T>();
    if (csr.rows == 0 || csr.begin(0) > 0 || csr.end(csr.rows - 1) < csr.nnz)
      zero(to, out[0].size());
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k)
        for (int64_t j = 0; j < n; ++j)
          to[k * n + j] =
              static_cast<T>(static_cast<Sum>(data[k]) * static_cast<Sum>(rhs[r * n + j]));
  });
}

void csr_to_dense(KernelContext&, const ShapeParams& p, Inputs in, Outputs out) {
  const Csr csr(in[1], in[2], p.shape[1]);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    zero(to, out[0].size());
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k) {
        if (!csr.inside(k)) continue;
        T& slot = to[r * csr.cols + csr.columns[k]];
        slot = static_cast<T>(slot + in[0].as<T>()[k]);
      }
  });
}

void csr_gather(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const bool one_row = in[0].shape[0] == 1, one_column = in[0].shape[1] == 1;
  const Csr csr(in[1], in[2], in[0].shape[1]);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    zero(to, csr.nnz);
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k)
        if (one_column || csr.inside(k))
          to[k] = in[0].as<T>()[(one_row ? 0 : r * csr.cols) + (one_column ? 0 : csr.columns[k])];
  });
}

void csr_count(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t rows = in[0].shape[0], cols = in[0].shape[1];
  int64_t* const starts = out[0].as<int64_t>();
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T* from = in[0].as<T>();
    starts[0] = 0;
    for (int64_t r = 0; r < rows; ++r, from += cols)
      starts[r + 1] =
          starts[r] + std::count_if(from, from + cols, [](T v) { return !(v == T(0)); });
  });
}

void csr_collect(KernelContext&, const CountParams& p, Inputs in, Outputs out) {
  const int64_t size = in[0].size(), cols = in[0].shape[1];
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const data = out[0].as<T>();
    int64_t* const columns = out[1].as<int64_t>();
    int64_t k = 0;
    for (int64_t i = 0; i < size && k < p.nnz; ++i) {
      if (from[i] == T(0)) continue;
      data[k] = from[i];
      columns[k++] = i % cols;
    }
  });
}

void csr_rows(KernelContext&, const CountParams& p, Inputs in, Outputs out) {
  const int64_t rows = in[0].shape[0] - 1;
  const int64_t* const starts = in[0].as<int64_t>();
  int64_t* const to = out[0].as<int64_t>();
  zero(to, p.nnz);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = std::clamp<int64_t>(starts[r], 0, p.nnz);
    std::fill(to + begin, to + std::clamp(starts[r + 1], begin, p.nnz), r);
  }
}

void csr_sum(KernelContext& ctx, const CsrSumParams& p, Inputs in, Outputs out) {
  const Csr csr(in[1], in[2], p.shape[1]);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Sum = ComputeType<T>;
    const int64_t n = out[0].size();
    auto* sums =
        static_cast<Sum*>(ctx.scratch(static_cast<size_t>(std::max<int64_t>(n, 1)) * sizeof(Sum)));
    zero(sums, n);
    for (int64_t r = 0; r < csr.rows; ++r)
      for (int64_t k = csr.begin(r), end = csr.end(r); k < end; ++k)
        if (csr.inside(k)) {
          Sum& sum = sums[p.axis == 0 ? csr.columns[k] : r];
          sum = static_cast<Sum>(sum + static_cast<Sum>(in[0].as<T>()[k]));
        }
    cpu::convert(sums, out[0].as<T>(), n);
  });
}

}  // namespace
}  // namespace sparse

static const Registration csr_registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace sparse;                        // NOLINT: this file's own names
  const Kernel worker_only{.inline_ok = false};  // cost depends on values, and kernels have
                                                 // parallel regions
  ops.cpu_kernel<cpu::flushing<&csr_dot>>("_csr_dot", worker_only);
  ops.cpu_kernel<cpu::flushing<&csr_sampled_dot>>("_csr_sampled_dot", worker_only);
  ops.cpu_kernel<&csr_spread>("_csr_spread");
  ops.cpu_kernel<&csr_to_dense>("_csr_to_dense");
  ops.cpu_kernel<&csr_gather>("_csr_gather");
  ops.cpu_kernel<&csr_count>("_csr_count");
  ops.cpu_kernel<&csr_collect>("_csr_collect");
  ops.cpu_kernel<&csr_rows>("_csr_rows");
  ops.cpu_kernel<&csr_sum>("_csr_sum");
});

}  // namespace mxlite
