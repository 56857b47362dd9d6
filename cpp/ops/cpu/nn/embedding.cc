#include "cpp/ops/nn/embedding.h"

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class T>
int64_t row_index(T index, int64_t rows) {
  if constexpr (std::is_integral_v<T>) {
    if (index <= T(0)) return 0;
    return static_cast<int64_t>(
        std::min(static_cast<uint64_t>(index), static_cast<uint64_t>(rows - 1)));
  } else {
    const double v = static_cast<double>(index);
    if (!(v > 0)) return 0;  // also for NaN
    return v < static_cast<double>(rows - 1) ? static_cast<int64_t>(v) : rows - 1;
  }
}

// Converts the indices to rows, clipped to the table.
void read_indices(const TensorRef& data, int64_t rows, int64_t* out) {
  dispatch_dtype(data.dtype, [&]<class T>(T) {
    const T* index = data.as<T>();
    for (int64_t i = 0; i < data.size(); ++i) out[i] = row_index(index[i], rows);
  });
}

void embedding_native(KernelContext& ctx, const EmbeddingParams& p, Inputs in, Outputs out) {
  const int64_t count = in[0].size();
  const size_t row_bytes = static_cast<size_t>(p.output_dim) * dtype_size(in[1].dtype);
  auto* rows = static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(count) * sizeof(int64_t)));
  read_indices(in[0], p.input_dim, rows);
  cpu::parallel_for(count, p.output_dim, [&](int64_t i) {
    std::copy_n(in[1].as<char>() + static_cast<size_t>(rows[i]) * row_bytes, row_bytes,
                out[0].as<char>() + static_cast<size_t>(i) * row_bytes);
  });
}

// The positions of a call, sorted by row with a stable counting sort, so that one thread sums each
// row in a fixed order.
struct Sorted {
  const int64_t* positions;
  const int64_t* end;  // for each row: end of its positions
  int64_t rows, columns;

  int64_t begin(int64_t row) const { return row > 0 ? end[row - 1] : 0; }
};

Sorted sort_positions(KernelContext& ctx, const EmbeddingParams& p, const TensorRef& data) {
  const int64_t count = data.size();
  cpu::ScratchPlan plan;
  const size_t rows_at = plan.add<int64_t>(count), sorted_at = plan.add<int64_t>(count);
  const size_t end_at = plan.add<int64_t>(p.input_dim + 1);
  void* block = ctx.scratch(plan.bytes());
  int64_t* rows = cpu::part<int64_t>(block, rows_at);
  int64_t* sorted = cpu::part<int64_t>(block, sorted_at);
  int64_t* end = cpu::part<int64_t>(block, end_at);  // end[r] is first the first slot of row r, and
                                                     // finally its end
  read_indices(data, p.input_dim, rows);
  std::fill_n(end, p.input_dim + 1, 0);
  for (int64_t i = 0; i < count; ++i) ++end[rows[i] + 1];
  for (int64_t r = 0; r < p.input_dim; ++r) end[r + 1] += end[r];
  for (int64_t i = 0; i < count; ++i) sorted[end[rows[i]]++] = i;
  return {sorted, end, p.input_dim, p.output_dim};
}

// Calls fn(first row, last row, first column, last column) for parts with similar amounts of work.
// Columns are divided only if there are fewer rows than threads can share.
void share_rows(const Sorted& s, auto&& fn) {
  const int64_t terms = s.end[s.rows - 1], threads = cpu_threads();
  const int64_t column_parts = s.rows < 4 * threads ? std::min(threads, (s.columns + 63) / 64) : 1;
  const int64_t row_parts = (threads + column_parts - 1) / column_parts;
  // Returns the first row of a part. The work of a row is one write and one read per term.
  const auto row_at = [&](int64_t part) {
    const int64_t wanted = (s.rows + terms) * part / row_parts;
    int64_t low = 0, high = s.rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (middle + s.begin(middle) < wanted)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  cpu::parallel_for(row_parts * column_parts,
                    (s.rows + terms) * s.columns / (row_parts * column_parts), [&](int64_t part) {
                      const int64_t row = part / column_parts, column = part % column_parts;
                      const int64_t last = row + 1 == row_parts ? s.rows : row_at(row + 1);
                      fn(row_at(row), last, s.columns * column / column_parts,
                         s.columns * (column + 1) / column_parts);
                    });
}

// Calls write(target, sum, n), which stores n sums of a row.
template <class T, class Write>
void sum_row(const Sorted& s, const T* grad, int64_t row, int64_t first, int64_t last, T* out,
             Write&& write) {
  using Acc = ComputeType<T>;
  constexpr int64_t kBlock = 256;
  for (; first < last; first += kBlock) {
    const int64_t n = std::min(kBlock, last - first);
    Acc sum[kBlock] = {};
    for (int64_t k = s.begin(row); k < s.end[row]; ++k) {
      const T* const source = grad + s.positions[k] * s.columns + first;
      for (int64_t c = 0; c < n; ++c) sum[c] = static_cast<Acc>(sum[c] + source[c]);
    }
    write(out + row * s.columns + first, sum, n);
  }
}

void embedding_backward_native(KernelContext& ctx, const EmbeddingParams& p, Inputs in,
                               Outputs out) {
  const Sorted s = sort_positions(ctx, p, in[1]);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    T* const to = out[0].as<T>();
    share_rows(s, [&](int64_t row, int64_t last_row, int64_t first, int64_t last) {
      for (; row < last_row; ++row) {
        if (s.begin(row) == s.end[row]) {
          std::fill(to + row * s.columns + first, to + row * s.columns + last, T(0));
          continue;
        }
        sum_row(s, in[0].as<T>(), row, first, last, to, [](T* target, const auto* sum, int64_t n) {
          for (int64_t c = 0; c < n; ++c) target[c] = static_cast<T>(sum[c]);
        });
      }
    });
  });
}

// Rounds the sum of a row before adding it, like two separate operators.
void embedding_backward_add_native(KernelContext& ctx, const EmbeddingParams& p, Inputs in,
                                   Outputs out) {
  const Sorted s = sort_positions(ctx, p, in[2]);
  if (out[0].data != in[0].data) cpu::contiguous_copy(out[0].data, in[0].data, in[0].bytes());
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    share_rows(s, [&](int64_t row, int64_t last_row, int64_t first, int64_t last) {
      for (; row < last_row; ++row) {
        if (s.begin(row) == s.end[row]) continue;
        sum_row(s, in[1].as<T>(), row, first, last, out[0].as<T>(),
                [](T* target, const auto* sum, int64_t n) {
                  for (int64_t c = 0; c < n; ++c)
                    target[c] = static_cast<T>(static_cast<Acc>(target[c]) +
                                               static_cast<Acc>(static_cast<T>(sum[c])));
                });
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<embedding_native>("Embedding");
  ops.cpu_kernel<embedding_backward_native>("_embedding_backward");
  ops.cpu_kernel<embedding_backward_add_native>("_embedding_backward_add");
});

}  // namespace mxlite
