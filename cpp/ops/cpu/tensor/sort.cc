// Values become unsigned keys with the same order, so that one sort serves all dtypes: keys of up
// to 32 bits are joined with the index to one 64-bit number, wider ones to a pair.
#include "cpp/ops/tensor/sort.h"

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

template <class T>
using KeyOf = std::conditional_t<sizeof(ComputeType<T>) == 8, uint64_t, uint32_t>;

template <class T>
KeyOf<T> order_key(T raw) {
  using Key = KeyOf<T>;
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  const auto value = static_cast<ComputeType<T>>(raw);
  if constexpr (std::is_floating_point_v<ComputeType<T>>) {
    if (std::isnan(value)) return std::numeric_limits<Key>::max();
    const Key bits = std::bit_cast<Key>(value + 0);  // -0 and 0 are equal
    return bits & kSign ? ~bits : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<std::make_signed_t<Key>>(value)) ^ kSign;
  } else {
    return static_cast<Key>(value);
  }
}

struct NarrowEntry {
  uint64_t key_and_index;
  static NarrowEntry make(uint32_t key, int64_t i) {
    return {uint64_t{key} << 32 | static_cast<uint32_t>(i)};
  }
  int64_t index() const { return static_cast<uint32_t>(key_and_index); }
  bool operator<(const NarrowEntry& o) const { return key_and_index < o.key_and_index; }
};
struct WideEntry {
  uint64_t key;
  int64_t i;
  static WideEntry make(uint64_t key, int64_t i) { return {key, i}; }
  int64_t index() const { return i; }
  bool operator<(const WideEntry& o) const { return key != o.key ? key < o.key : i < o.i; }
};

template <class Entry>
void select_first(Entry* entries, int64_t count, int64_t k) {
  if (k < count) std::nth_element(entries, entries + k, entries + count);
  std::sort(entries, entries + k);
}

// Sorted indices of one row into `indices`; `step` elements lie between neighbours.
template <class T>
void sort_row(const T* values, int64_t step, int64_t length, int64_t k, bool ascend, void* memory,
              int64_t* indices) {
  using Entry = std::conditional_t<sizeof(KeyOf<T>) == 8, WideEntry, NarrowEntry>;
  auto* const entries = static_cast<Entry*>(memory);
  for (int64_t i = 0; i < length; ++i) {
    const KeyOf<T> key = order_key(values[i * step]);
    entries[i] = Entry::make(ascend ? key : static_cast<KeyOf<T>>(~key), i);
  }
  select_first(entries, length, k);
  for (int64_t i = 0; i < k; ++i) indices[i] = entries[i].index();
}

void store_strided(const int64_t* values, int64_t count, const TensorRef& out, int64_t first,
                   int64_t step) {
  dispatch_dtype(out.dtype, [&]<class T>(T) {
    T* const to = out.as<T>() + first;
    for (int64_t i = 0; i < count; ++i)
      to[i * step] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
  });
}

struct SortRequest {
  SortView view;
  int64_t k;
  bool ascend;
  const TensorRef* value = nullptr;
  const TensorRef* indices = nullptr;
  const TensorRef* mask = nullptr;
};

void write_row(const SortRequest& r, const TensorRef& data, int64_t row, const int64_t* indices) {
  const int64_t inner = r.view.inner;
  const int64_t in_first = row / inner * r.view.length * inner + row % inner;
  const int64_t out_first = row / inner * r.k * inner + row % inner;
  if (r.indices) store_strided(indices, r.k, *r.indices, out_first, inner);
  if (r.value)
    cpu::dispatch_size(dtype_size(data.dtype), [&]<class T>(T) {
      const T* const from = data.as<T>() + in_first;
      T* const to = r.value->as<T>() + out_first;
      for (int64_t i = 0; i < r.k; ++i) to[i * inner] = from[indices[i] * inner];
    });
  if (r.mask)
    dispatch_dtype(data.dtype, [&]<class T>(T) {
      T* const to = r.mask->as<T>() + in_first;
      for (int64_t i = 0; i < r.k; ++i) to[indices[i] * inner] = T(1);
    });
}

void sort_all(KernelContext& ctx, const TensorRef& data, const SortRequest& r) {
  const SortView& v = r.view;
  if (data.size() == 0) return;
  if (r.mask) cpu::zero_fill(r.mask->data, r.mask->bytes());
  const int64_t rows = v.outer * v.inner;
  const bool parallel = rows > 1 && data.size() > 8192 && !omp_in_parallel();
  const int threads = parallel ? static_cast<int>(std::min<int64_t>(cpu_threads(), rows)) : 1;
  const size_t bytes_per_thread =
      static_cast<size_t>(v.length) * (sizeof(WideEntry) + sizeof(int64_t));
  auto* const memory =
      static_cast<std::byte*>(ctx.scratch(static_cast<size_t>(threads) * bytes_per_thread));
#pragma omp parallel for if (threads > 1) num_threads(threads)
  for (int64_t row = 0; row < rows; ++row) {
    std::byte* const own = memory + static_cast<size_t>(omp_get_thread_num()) * bytes_per_thread;
    auto* const indices =
        reinterpret_cast<int64_t*>(own + static_cast<size_t>(v.length) * sizeof(WideEntry));
    const int64_t first = row / v.inner * v.length * v.inner + row % v.inner;
    dispatch_dtype(data.dtype, [&]<class T>(T) {
      sort_row(data.as<T>() + first, v.inner, v.length, r.k, r.ascend, own, indices);
    });
    write_row(r, data, row, indices);
  }
}

void sort_native(KernelContext& ctx, const SortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("sort", p.axis, in[0].shape);
  sort_all(ctx, in[0], {v, v.length, p.is_ascend, &out[0]});
}

void argsort_native(KernelContext& ctx, const ArgsortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("argsort", p.axis, in[0].shape);
  sort_all(ctx, in[0], {v, v.length, p.is_ascend, nullptr, &out[0]});
}

void topk_native(KernelContext& ctx, const TopkParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("topk", p.axis, in[0].shape);
  SortRequest r{v, p.k > 0 ? p.k : v.length, p.is_ascend};
  if (p.ret_typ == TopkResult::kValue || p.ret_typ == TopkResult::kBoth) r.value = &out[0];
  if (p.ret_typ == TopkResult::kIndices) r.indices = &out[0];
  if (p.ret_typ == TopkResult::kBoth) r.indices = &out[1];
  if (p.ret_typ == TopkResult::kMask) r.mask = &out[0];
  sort_all(ctx, in[0], r);
}

// fn(position in the indexed array, position in the indices) for every index.
template <class F>
void along_axis(const Shape& shape, int axis, const TensorRef& index, const int64_t* indices,
                F fn) {
  const SortView v = sort_view("_take_along_axis", axis, shape);
  const int64_t k = v.outer * v.inner == 0 ? 0 : index.size() / (v.outer * v.inner);
  for (int64_t i = 0; i < index.size(); ++i) {
    const int64_t o = i / (k * v.inner);
    fn((o * v.length + std::clamp<int64_t>(indices[i], 0, v.length - 1)) * v.inner + i % v.inner,
       i);
  }
}

void take_along_axis_native(KernelContext& ctx, const AlongAxisParams& p, Inputs in, Outputs out) {
  const int64_t* const indices = cpu::index_values(ctx, in[1]);
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const to = out[0].as<T>();
    along_axis(in[0].shape, p.axis, in[1], indices,
               [&](int64_t place, int64_t i) { to[i] = from[place]; });
  });
}

void put_along_axis_native(KernelContext& ctx, const PutAlongAxisParams& p, Inputs in,
                           Outputs out) {
  const int64_t* const indices = cpu::index_values(ctx, in[1]);
  cpu::zero_fill(out[0].data, out[0].bytes());
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T* const from = in[0].as<T>();
    T* const to = out[0].as<T>();
    along_axis(out[0].shape, p.axis, in[1], indices,
               [&](int64_t place, int64_t i) { to[place] = from[i]; });
  });
}

}  // namespace

void register_sort_cpu(OpRegistry& ops) {
  const Kernel worker_only{.inline_ok = false};  // far more work than its output's size tells
  ops.kernel<&sort_native>("sort", DeviceType::kCPU, worker_only);
  ops.kernel<&argsort_native>("argsort", DeviceType::kCPU, worker_only);
  ops.kernel<&topk_native>("topk", DeviceType::kCPU, worker_only);
  ops.kernel<&take_along_axis_native>("_take_along_axis", DeviceType::kCPU);
  ops.kernel<&put_along_axis_native>("_put_along_axis", DeviceType::kCPU);
}

}  // namespace mxlite
