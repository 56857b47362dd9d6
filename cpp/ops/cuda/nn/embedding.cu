#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Truncates an index to an integer and clips it to the table; a NaN gives row 0.
__device__ __forceinline__ int64_t clipped_row(const void* indices, DType dtype, int64_t i,
                                               int64_t rows) {
  const double v = load_any<double>(indices, dtype, i);
  if (!(v > 0)) return 0;
  return v < static_cast<double>(rows - 1) ? static_cast<int64_t>(v) : rows - 1;
}

// Copies rows in words of the widest type whose size divides the size of a row.
template <class Word>
__global__ void gather_rows(int64_t words, int64_t row_words, const void* indices, DType dtype,
                            int64_t rows, const Word* table, Word* out) {
  for (int64_t i = global_index(); i < words; i += grid_stride()) {
    const int64_t k = i / row_words;
    out[i] = table[clipped_row(indices, dtype, k, rows) * row_words + (i - k * row_words)];
  }
}

__global__ void find_rows(int64_t count, const void* indices, DType dtype, int64_t rows,
                          int64_t* out) {
  for (int64_t i = global_index(); i < count; i += grid_stride())
    out[i] = clipped_row(indices, dtype, i, rows);
}

template <class Word>
void gather_as(KernelContext& ctx, const EmbeddingParams& p, Inputs in, const TensorRef& out,
               size_t row_bytes) {
  const auto row_words = static_cast<int64_t>(row_bytes / sizeof(Word));
  const int64_t words = in[0].size() * row_words;
  launch_items(ctx, gather_rows<Word>, words, words, row_words, in[0].data, in[0].dtype,
               p.input_dim, in[1].as<Word>(), out.as<Word>());
}

bool fits(size_t word, size_t row_bytes, const TensorRef& a, const TensorRef& b) {
  return row_bytes % word == 0 && reinterpret_cast<uintptr_t>(a.data) % word == 0 &&
         reinterpret_cast<uintptr_t>(b.data) % word == 0;
}

void embedding(KernelContext& ctx, const EmbeddingParams& p, Inputs in, Outputs out) {
  const size_t row_bytes = static_cast<size_t>(p.output_dim) * dtype_size(in[1].dtype);
  if (fits(16, row_bytes, in[1], out[0])) return gather_as<uint4>(ctx, p, in, out[0], row_bytes);
  switch (dtype_size(in[1].dtype)) {
    case 1:
      return gather_as<uint8_t>(ctx, p, in, out[0], row_bytes);
    case 2:
      return gather_as<uint16_t>(ctx, p, in, out[0], row_bytes);
    case 4:
      return gather_as<uint32_t>(ctx, p, in, out[0], row_bytes);
    default:
      return gather_as<uint64_t>(ctx, p, in, out[0], row_bytes);
  }
}

void embedding_backward(KernelContext& ctx, const EmbeddingParams& p, Inputs in, Outputs out) {
  const int64_t count = in[1].size();
  RowAccumulation a{in[0].dtype, 1, count, p.input_dim, p.output_dim};
  a.rows = accumulation_rows(ctx, a);
  launch_items(ctx, find_rows, count, count, in[1].data, in[1].dtype, p.input_dim, a.rows);
  accumulate_rows(ctx, a, in[0].data, out[0].data);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::embedding>("Embedding");
  ops.cuda_kernel<&cuda::embedding_backward>("_embedding_backward");
});

}  // namespace mxlite::cuda
