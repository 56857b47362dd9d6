// All rows are sorted at once: values become unsigned keys of the same order (NaN largest, ties in
// order of the index), the number of the row stands above the key, and a stable radix sort does the
// rest. Keys of 64 bits take a second sort by row.
#include <cstring>
#include <cub/device/device_radix_sort.cuh>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/sort.h"

namespace mxlite {
namespace cuda {
namespace {

constexpr int kNarrowBits = 32;

template <class T>
__device__ __forceinline__ uint64_t order_key(T value) {
  if constexpr (std::is_same_v<T, double>) {
    if (value != value) return ~uint64_t{0};
    const auto bits = static_cast<uint64_t>(__double_as_longlong(value + 0));
    return bits ^ (bits >> 63 ? ~uint64_t{0} : uint64_t{1} << 63);
  } else if constexpr (std::is_same_v<T, float>) {
    if (value != value) return 0xffffffffu;
    const uint32_t bits = __float_as_uint(value + 0);
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
  } else if constexpr (sizeof(T) == 8) {
    return std::is_signed_v<T> ? static_cast<uint64_t>(value) ^ uint64_t { 1 } << 63
                               : static_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint32_t>(static_cast<int32_t>(value)) ^ 0x80000000u;
  } else {
    return static_cast<uint32_t>(value);
  }
}

// Entry e is element e % length of row e / length; rows run over (outer, inner).
__device__ __forceinline__ int64_t element_of(const SortView& v, int64_t row, int64_t i,
                                              int64_t length) {
  return (row / v.inner * length + i) * v.inner + row % v.inner;
}

template <class T>
__global__ void make_entries(int64_t n, SortView v, bool ascend, const T* data, uint64_t* keys,
                             int64_t* indices) {
  using C = AccOf<T>;
  constexpr bool kWide = sizeof(C) == 8;
  for (int64_t e = global_index(); e < n; e += grid_stride()) {
    const int64_t row = e / v.length, i = e - row * v.length;
    uint64_t key = order_key(convert<C>(data[element_of(v, row, i, v.length)]));
    if (!ascend) key = kWide ? ~key : ~key & 0xffffffffu;
    keys[e] = kWide ? key : static_cast<uint64_t>(row) << kNarrowBits | key;
    indices[e] = kWide ? e : i;
  }
}

// Sorts the entries that are the values of wide keys by row, then leaves indices.
__global__ void rows_of_entries(int64_t n, int64_t length, const int64_t* entries, uint64_t* rows) {
  for (int64_t e = global_index(); e < n; e += grid_stride())
    rows[e] = static_cast<uint64_t>(entries[e] / length);
}
__global__ void indices_of_entries(int64_t n, int64_t length, int64_t* entries) {
  for (int64_t e = global_index(); e < n; e += grid_stride()) entries[e] %= length;
}

struct Results {
  SortView v;
  int64_t k;
  void* value = nullptr;
  void* indices = nullptr;
  DType indices_dtype = DType::kFloat32;
  void* mask = nullptr;
};

template <class Word>
__global__ void write_results(int64_t n, const __grid_constant__ Results r, const int64_t* sorted,
                              const Word* data, Word one) {
  for (int64_t e = global_index(); e < n; e += grid_stride()) {
    const int64_t row = e / r.k, rank = e - row * r.k;
    const int64_t index = sorted[row * r.v.length + rank];
    const int64_t from = element_of(r.v, row, index, r.v.length);
    const int64_t to = element_of(r.v, row, rank, r.k);
    if (r.value) static_cast<Word*>(r.value)[to] = data[from];
    if (r.indices) store_any<int64_t>(r.indices, r.indices_dtype, to, index);
    if (r.mask) static_cast<Word*>(r.mask)[from] = one;
  }
}

int bits_for(int64_t count) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) < count) ++bits;
  return bits;
}

struct Sorter {
  KernelContext& ctx;
  int64_t n;
  uint64_t *keys, *sorted_keys;
  int64_t *values, *sorted_values;
  void* memory;
  size_t memory_bytes;

  // The sorted entries become the ones to be sorted next.
  void run(int begin_bit, int end_bit) {
    MX_CUDA(cub::DeviceRadixSort::SortPairs(memory, memory_bytes, const_cast<const uint64_t*>(keys),
                                            sorted_keys, const_cast<const int64_t*>(values),
                                            sorted_values, n, begin_bit, end_bit, stream(ctx)));
    std::swap(keys, sorted_keys);
    std::swap(values, sorted_values);
  }
};

Sorter make_sorter(KernelContext& ctx, int64_t n) {
  ScratchPlan plan;
  const size_t bytes = static_cast<size_t>(n) * sizeof(int64_t);
  const size_t keys = plan.add(bytes), sorted_keys = plan.add(bytes);
  const size_t values = plan.add(bytes), sorted_values = plan.add(bytes);
  size_t memory_bytes = 0;
  const uint64_t* const no_keys = nullptr;
  const int64_t* const no_values = nullptr;
  MX_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, memory_bytes, no_keys,
                                          static_cast<uint64_t*>(nullptr), no_values,
                                          static_cast<int64_t*>(nullptr), n));
  const size_t memory = plan.add(memory_bytes);
  void* const block = ctx.scratch(plan.bytes());
  return {ctx,
          n,
          part<uint64_t>(block, keys),
          part<uint64_t>(block, sorted_keys),
          part<int64_t>(block, values),
          part<int64_t>(block, sorted_values),
          part<void>(block, memory),
          memory_bytes};
}

void sort_all(KernelContext& ctx, const TensorRef& data, bool ascend, const Results& r) {
  const int64_t n = data.size();
  if (n == 0 || r.k == 0) return;
  const SortView& v = r.v;
  const int64_t rows = n / v.length;
  if (r.mask) zero_bytes(ctx, r.mask, data.bytes());
  Sorter sorter = make_sorter(ctx, n);
  dispatch_elements(data.dtype, [&]<class T>(T) {
    launch_items(ctx, make_entries<T>, n, n, v, ascend, data.as<T>(), sorter.keys, sorter.values);
  });
  if (dtype_size(data.dtype) == 8) {
    sorter.run(0, 64);
    launch_items(ctx, rows_of_entries, n, n, v.length, sorter.values, sorter.keys);
    if (rows > 1) sorter.run(0, bits_for(rows));
    launch_items(ctx, indices_of_entries, n, n, v.length, sorter.values);
  } else {
    sorter.run(0, kNarrowBits + (rows > 1 ? bits_for(rows) : 0));
  }
  uint64_t one = 0;
  dispatch_dtype(data.dtype, [&]<class T>(T) {
    const T value = static_cast<T>(static_cast<ComputeType<T>>(1));
    std::memcpy(&one, &value, sizeof(T));
  });
  const int64_t written = rows * r.k;
  dispatch_size(dtype_size(data.dtype), [&]<class Word>(Word) {
    launch_items(ctx, write_results<Word>, written, written, r, sorter.values, data.as<Word>(),
                 static_cast<Word>(one));
  });
}

void sort(KernelContext& ctx, const SortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("sort", p.axis, in[0].shape);
  sort_all(ctx, in[0], p.is_ascend, {v, v.length, out[0].data});
}
void argsort(KernelContext& ctx, const ArgsortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("argsort", p.axis, in[0].shape);
  sort_all(ctx, in[0], p.is_ascend, {v, v.length, nullptr, out[0].data, out[0].dtype});
}
void topk(KernelContext& ctx, const TopkParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("topk", p.axis, in[0].shape);
  Results r{v, p.k > 0 ? p.k : v.length};
  const TensorRef* indices = nullptr;
  if (p.ret_typ == TopkResult::kValue || p.ret_typ == TopkResult::kBoth) r.value = out[0].data;
  if (p.ret_typ == TopkResult::kIndices) indices = &out[0];
  if (p.ret_typ == TopkResult::kBoth) indices = &out[1];
  if (p.ret_typ == TopkResult::kMask) r.mask = out[0].data;
  if (indices) {
    r.indices = indices->data;
    r.indices_dtype = indices->dtype;
  }
  sort_all(ctx, in[0], p.is_ascend, r);
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<&cuda::sort>("sort", DeviceType::kCUDA);
  ops.kernel<&cuda::argsort>("argsort", DeviceType::kCUDA);
  ops.kernel<&cuda::topk>("topk", DeviceType::kCUDA);
});

}  // namespace mxlite
