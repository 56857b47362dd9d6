// sort, argsort, and topk, which selects a few elements of each row without sorting it.
#include <cstring>

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/cuda/tensor/sort.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {

uint64_t bits_of_one(DType dtype) {
  uint64_t one = 0;
  dispatch_dtype(dtype, [&]<class T>(T) {
    const T value = static_cast<T>(static_cast<ComputeType<T>>(1));
    std::memcpy(&one, &value, sizeof(T));
  });
  return one;
}

namespace {

constexpr int64_t kMostSelected = 32;

// One block per row. Each thread keeps the best of its elements. The block selects the best of
// these elements, and the thread that had it searches for its next best. The index is stored in the
// bits below the key, so all values differ. Keys are inverted: the largest is best, and 0 means no
// element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    select_best(int64_t rows, bool ascend, const __grid_constant__ SortResults r, const T* data,
                T one) {
  const SortView& v = r.v;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto best_up_to = [&](uint64_t limit) {
      uint64_t best = 0;
      for (int64_t i = threadIdx.x; i < v.length; i += blockDim.x) {
        uint64_t key = order_key(convert<AccOf<T>>(data[element_of(v, row, i, v.length)]));
        if (ascend) key = ~key & 0xffffffffu;
        const uint64_t rank = key << 32 | (0xffffffffu - static_cast<uint32_t>(i));
        if (rank <= limit && rank > best) best = rank;
      }
      return best;
    };
    uint64_t own = best_up_to(~uint64_t{0});
    for (int64_t rank = 0; rank < r.k; ++rank) {
      const uint64_t best = block_max(own, uint64_t{0});
      if (own != best) continue;  // another thread has the element
      const auto index = static_cast<int64_t>(0xffffffffu - static_cast<uint32_t>(best));
      const int64_t from = element_of(v, row, index, v.length);
      const int64_t to = element_of(v, row, rank, r.k);
      if (r.value) static_cast<T*>(r.value)[to] = data[from];
      if (r.indices) store_any<int64_t>(r.indices, r.indices_dtype, to, index);
      if (r.mask) static_cast<T*>(r.mask)[from] = one;
      own = best_up_to(best - 1);
    }
  }
}

// Selects the elements if keys have at most 32 bits and few elements of a row are needed. Returns
// whether they were selected.
bool select_rows(KernelContext& ctx, const TensorRef& data, bool ascend, const SortResults& r) {
  const int64_t rows = data.size() / std::max<int64_t>(r.v.length, 1);
  if (dtype_size(data.dtype) > 4 || r.k > kMostSelected || r.k > r.v.length ||
      r.v.length >= int64_t{1} << 32)
    return false;
  if (rows == 0 || r.k == 0) return true;
  if (r.mask) zero_bytes(ctx, r.mask, data.bytes());
  const int64_t whole_warps = (r.v.length + kWarp - 1) / kWarp * kWarp;
  const auto threads = static_cast<unsigned>(std::min<int64_t>(whole_warps, kThreads));
  const uint64_t bits = bits_of_one(data.dtype);
  dispatch_elements(data.dtype, [&]<class T>(T) {
    if constexpr (sizeof(T) <= 4) {
      T one;
      std::memcpy(&one, &bits, sizeof(T));
      launch(ctx, select_best<T>, blocks_per_task(ctx, rows), threads, rows, ascend, r,
             data.as<T>(), one);
    }
  });
  return true;
}

void sort(KernelContext& ctx, const SortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("sort", p.axis, in[0].shape);
  sort_rows(ctx, in[0], p.is_ascend, {v, v.length, out[0].data});
}
void argsort(KernelContext& ctx, const ArgsortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("argsort", p.axis, in[0].shape);
  sort_rows(ctx, in[0], p.is_ascend, {v, v.length, nullptr, out[0].data, out[0].dtype});
}
void topk(KernelContext& ctx, const TopkParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("topk", p.axis, in[0].shape);
  SortResults r{v, p.k > 0 ? p.k : v.length};
  const TensorRef* indices = nullptr;
  if (p.ret_typ == TopkResult::kValue || p.ret_typ == TopkResult::kBoth) r.value = out[0].data;
  if (p.ret_typ == TopkResult::kIndices) indices = &out[0];
  if (p.ret_typ == TopkResult::kBoth) indices = &out[1];
  if (p.ret_typ == TopkResult::kMask) r.mask = out[0].data;
  if (indices) {
    r.indices = indices->data;
    r.indices_dtype = indices->dtype;
  }
  if (!select_rows(ctx, in[0], p.is_ascend, r)) sort_rows(ctx, in[0], p.is_ascend, r);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::sort>("sort");
  ops.cuda_kernel<&cuda::argsort>("argsort");
  ops.cuda_kernel<&cuda::topk>("topk");
});

}  // namespace mxlite::cuda
