// Sorts all rows at once: values are converted to unsigned keys of the same order (NaN largest,
// ties by index), the row number is stored in the bits above the key, and a stable radix sort sorts
// these numbers. 64-bit keys need a second sort by row.
#include <cub/device/device_radix_sort.cuh>

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/cuda/tensor/sort.cuh"

namespace mxlite::cuda {
namespace {

constexpr int kNarrowBits = 32;

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

// For wide keys: the first kernel makes the keys of a sort by row, the second extracts indices.
__global__ void rows_of_entries(int64_t n, int64_t length, const int64_t* entries, uint64_t* rows) {
  for (int64_t e = global_index(); e < n; e += grid_stride())
    rows[e] = static_cast<uint64_t>(entries[e] / length);
}
__global__ void indices_of_entries(int64_t n, int64_t length, int64_t* entries) {
  for (int64_t e = global_index(); e < n; e += grid_stride()) entries[e] %= length;
}

template <class Word>
__global__ void write_results(int64_t n, const __grid_constant__ SortResults r,
                              const int64_t* sorted, const Word* data, Word one) {
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

  // Sorts once; the sorted entries are the input of the next sort.
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

}  // namespace

void sort_rows(KernelContext& ctx, const TensorRef& data, bool ascend, const SortResults& r) {
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
  const uint64_t one = bits_of_one(data.dtype);
  const int64_t written = rows * r.k;
  dispatch_size(dtype_size(data.dtype), [&]<class Word>(Word) {
    launch_items(ctx, write_results<Word>, written, written, r, sorter.values, data.as<Word>(),
                 static_cast<Word>(one));
  });
}

}  // namespace mxlite::cuda
