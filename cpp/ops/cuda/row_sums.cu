#include "cpp/ops/cuda/ordered_sums.cuh"

namespace mxlite::cuda {
namespace {

// Rows of an array (outer, count, inner).
struct SourceRows {
  const void* src;
  template <class C>
  __device__ __forceinline__ C load(const RowAccumulation& a, int64_t position,
                                    const Column& at) const {
    return load_as<C>(src, a.dtype, (at.outer * a.count + position) * a.inner + at.inner);
  }
};

}  // namespace

size_t row_sum_bytes(const RowAccumulation& a) {
  return static_cast<size_t>(chunks_of(a) * 2 * a.outer * a.inner) * sizeof(double);
}

void sum_ordered_rows(KernelContext& ctx, const RowOrder& order, const RowAccumulation& a,
                      const void* src, void* dst, void* memory) {
  const SourceRows source{src};
  if (a.dtype == DType::kFloat64)
    sum_in_chunks<double>(ctx, order, a, source, dst, memory);
  else if (is_floating(a.dtype))
    sum_in_chunks<float>(ctx, order, a, source, dst, memory);
  else if (a.dtype == DType::kUInt64)
    sum_in_chunks<uint64_t>(ctx, order, a, source, dst, memory);
  else
    sum_in_chunks<int64_t>(ctx, order, a, source, dst, memory);
}

}  // namespace mxlite::cuda
