#include <limits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/sparse/row_groups.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/sparse/sparse.h"

namespace mxlite {
namespace sparse {
namespace {

int64_t row_size(const TensorRef& t) { return t.shape.product(1, t.shape.ndim()); }

template <class T>
void add_up(const T* values, const int64_t* positions, int64_t count, int64_t width, T* out) {
  using Sum = ComputeType<T>;
  constexpr int64_t kStrip = 256;
  Sum sums[kStrip];
  for (int64_t j0 = 0; j0 < width; j0 += kStrip) {
    const int64_t n = std::min(kStrip, width - j0);
    std::fill_n(sums, n, Sum(0));
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < n; ++j)
        sums[j] =
            static_cast<Sum>(sums[j] + static_cast<Sum>(values[positions[i] * width + j0 + j]));
    for (int64_t j = 0; j < n; ++j) out[j0 + j] = static_cast<T>(sums[j]);
  }
}

int64_t* order_memory(KernelContext& ctx, int64_t count) {
  return static_cast<int64_t*>(
      ctx.scratch(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(int64_t)));
}

void row_sparse_to_dense(KernelContext& ctx, const ShapeParams& p, Inputs in, Outputs out) {
  const int64_t* const indices = in[1].as<int64_t>();
  const int64_t count = in[1].shape[0], width = row_size(in[0]);
  int64_t* const order = order_memory(ctx, count);
  const int64_t n = order_by_row(indices, count, p.shape[0], order);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    cpu::parallel_ranges(out[0].size(), 1, [&](int64_t first, int64_t last, int) {
      std::fill(to + first, to + last, T(0));
    });
    cpu::parallel_ranges(n, width, [&](int64_t begin, int64_t end, int) {
      for_each_group(indices, order, n, begin, end, [&](int64_t row, int64_t a, int64_t b) {
        add_up(in[0].as<T>(), order + a, b - a, width, to + row * width);
      });
    });
  });
}

void nonzero_rows(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t rows = in[0].shape[0], width = row_size(in[0]);
  int64_t* const to = out[0].as<int64_t>();
  int64_t n = 0;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T* from = in[0].as<T>();
    for (int64_t r = 0; r < rows; ++r, from += width)
      if (std::any_of(from, from + width, [](T v) { return !(v == T(0)); })) to[n++] = r;
  });
  std::fill(to + n, to + rows, int64_t{0});
  to[rows] = n;
}

// As in Embedding, indices are truncated to integers and clipped to the table.
void embedding_rows(KernelContext&, const EmbeddingRowsParams& p, Inputs in, Outputs out) {
  int64_t* const to = out[0].as<int64_t>();
  const int64_t last = p.input_dim - 1, n = in[0].size();
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    for (int64_t i = 0; i < n; ++i) {
      const double v = static_cast<double>(static_cast<ComputeType<T>>(from[i]));
      if (!(v > 0))
        to[i] = 0;  // also for NaN
      else
        to[i] = v < static_cast<double>(last) ? static_cast<int64_t>(from[i]) : last;
    }
  });
}

void unique_rows(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t count = in[0].shape[0];
  int64_t* const to = out[0].as<int64_t>();
  std::copy_n(in[0].as<int64_t>(), count, to);
  if (!std::is_sorted(to, to + count)) std::sort(to, to + count);
  int64_t* const end = std::unique(to, to + count);
  std::fill(end, to + count, int64_t{0});
  to[count] = end - to;
}

void merge_rows(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t* const indices = in[1].as<int64_t>();
  const int64_t count = in[1].shape[0], width = row_size(in[0]), rows = in[2].shape[0];
  int64_t* const order = order_memory(ctx, count);
  const int64_t n = order_by_row(indices, count, std::numeric_limits<int64_t>::max(), order);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    const int64_t* const unique = in[2].as<int64_t>();
    cpu::parallel_ranges(n, width, [&](int64_t begin, int64_t end, int) {
      for_each_group(indices, order, n, begin, end, [&](int64_t row, int64_t a, int64_t b) {
        const int64_t at = std::lower_bound(unique, unique + rows, row) - unique;
        if (at < rows) add_up(in[0].as<T>(), order + a, b - a, width, to + at * width);
      });
    });
  });
}

int64_t find(const int64_t* indices, int64_t count, int64_t query) {
  const int64_t* const at = std::lower_bound(indices, indices + count, query);
  return at < indices + count && *at == query ? at - indices : -1;
}

void find_rows(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t* const indices = in[0].as<int64_t>();
  for (int64_t i = 0; i < in[1].shape[0]; ++i)
    out[0].as<int64_t>()[i] = find(indices, in[0].shape[0], in[1].as<int64_t>()[i]);
}

void row_sparse_take(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t* const indices = in[1].as<int64_t>();
  const size_t bytes = static_cast<size_t>(row_size(in[0])) * dtype_size(in[0].dtype);
  cpu::parallel_for(in[2].shape[0], row_size(in[0]), [&](int64_t i) {
    const int64_t at = find(indices, in[1].shape[0], in[2].as<int64_t>()[i]);
    auto* const to = out[0].as<std::byte>() + static_cast<size_t>(i) * bytes;
    if (at < 0)
      std::fill_n(to, bytes, std::byte{0});
    else
      std::copy_n(in[0].as<std::byte>() + static_cast<size_t>(at) * bytes, bytes, to);
  });
}

}  // namespace
}  // namespace sparse

static const Registration rows_registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace sparse;  // NOLINT: this file's own names
  ops.cpu_kernel<&row_sparse_to_dense>("_row_sparse_to_dense");
  ops.cpu_kernel<&nonzero_rows>("_nonzero_rows");
  ops.cpu_kernel<&embedding_rows>("_embedding_rows");
  ops.cpu_kernel<&unique_rows>("_unique_rows", {.inline_ok = false});
  ops.cpu_kernel<&merge_rows>("_merge_rows");
  ops.cpu_kernel<&find_rows>("_find_rows");
  ops.cpu_kernel<&row_sparse_take>("_row_sparse_take");
});

}  // namespace mxlite
