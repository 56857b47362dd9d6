#include "cpp/ops/nn/embedding.h"

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/op_schema.h"
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
    if (!(v > 0)) return 0;  // NaN too
    return v < static_cast<double>(rows - 1) ? static_cast<int64_t>(v) : rows - 1;
  }
}

// Indices as clipped rows.
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

// Positions are sorted by row (counting sort, stable), so that every row is summed by one thread
// in a fixed order and written once.
void embedding_backward_native(KernelContext& ctx, const EmbeddingParams& p, Inputs in,
                               Outputs out) {
  const int64_t count = in[1].size(), dim = p.output_dim;
  cpu::ScratchPlan plan;
  const size_t rows_at = plan.add<int64_t>(count), sorted_at = plan.add<int64_t>(count);
  const size_t end_at = plan.add<int64_t>(p.input_dim + 1);
  void* block = ctx.scratch(plan.bytes());
  int64_t* rows = cpu::part<int64_t>(block, rows_at);
  int64_t* sorted = cpu::part<int64_t>(block, sorted_at);
  int64_t* end = cpu::part<int64_t>(block, end_at);  // end[r]: first slot of row r, then its end
  read_indices(in[1], p.input_dim, rows);
  std::fill_n(end, p.input_dim + 1, 0);
  for (int64_t i = 0; i < count; ++i) ++end[rows[i] + 1];
  for (int64_t r = 0; r < p.input_dim; ++r) end[r + 1] += end[r];
  for (int64_t i = 0; i < count; ++i) sorted[end[rows[i]]++] = i;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const T* grad = in[0].as<T>();
    const int64_t work = dim * (1 + count / p.input_dim);
    cpu::parallel_for(p.input_dim, work, [&](int64_t r) {
      constexpr int64_t kBlock = 256;
      for (int64_t first = 0; first < dim; first += kBlock) {
        const int64_t n = std::min(kBlock, dim - first);
        Acc sum[kBlock] = {};
        for (int64_t k = r > 0 ? end[r - 1] : 0; k < end[r]; ++k) {
          const T* source = grad + sorted[k] * dim + first;
          for (int64_t c = 0; c < n; ++c) sum[c] = static_cast<Acc>(sum[c] + source[c]);
        }
        T* target = out[0].as<T>() + r * dim + first;
        for (int64_t c = 0; c < n; ++c) target[c] = static_cast<T>(sum[c]);
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<embedding_native>("Embedding", DeviceType::kCPU);
  ops.kernel<embedding_backward_native>("_embedding_backward", DeviceType::kCPU);
});

}  // namespace mxlite
