// An entry is a key with an index (ordering.h); the sorted axis of a row gives its entries. If the
// axis is not the last one, neighboring rows are read and written together, because their elements
// share cache lines.
#include "cpp/ops/tensor/sort.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kMaxRows = 16;                   // number of rows that are sorted together
constexpr int64_t kGroupBytes = int64_t{4} << 20;  // limit of their entries' bytes

struct SortRequest {
  SortView view;
  int64_t k;
  bool ascend;
  const TensorRef* value = nullptr;
  const TensorRef* indices = nullptr;
  const TensorRef* mask = nullptr;
};

// Adjacent rows: element i of row w is at first + i * step + w.
struct RowGroup {
  int64_t first_in, first_out, step, width;
};

template <class T>
using Sorted = std::array<cpu::EntryOf<T>*, kMaxRows>;

// Finds the first k entries of every row of the group. `memory` has room for width + 1 rows.
template <class T>
Sorted<T> sort_group(const SortRequest& r, const T* data, const RowGroup& group,
                     cpu::EntryOf<T>* memory) {
  using Entry = cpu::EntryOf<T>;
  using Key = cpu::KeyOf<T>;
  const int64_t length = r.view.length, width = group.width;
  const Key flip = r.ascend ? Key(0) : static_cast<Key>(~Key(0));
  const T* const values = data + group.first_in;
  Sorted<T> sorted;
  if (group.step == 1 && cpu::selects(length, r.k)) {  // with selection, most elements are never
                                                       // stored as entries
    const auto entry_at = [=](int64_t i) {
      return Entry::make(static_cast<Key>(cpu::order_key(values[i]) ^ flip), i);
    };
    cpu::select_first(entry_at, length, r.k, memory);
    sorted[0] = memory;
    return sorted;
  }
  for (int64_t i = 0; i < length; ++i)
    for (int64_t w = 0; w < width; ++w)
      memory[w * length + i] =
          Entry::make(static_cast<Key>(cpu::order_key(values[i * group.step + w]) ^ flip), i);
  Entry* const room = memory + width * length;
  for (int64_t w = 0; w < width; ++w) {
    Entry* const own = memory + w * length;
    sorted[w] = cpu::sort_first(own, room, length, r.k);
    if (width > 1 && sorted[w] == room) sorted[w] = std::copy_n(room, r.k, own) - r.k;
  }
  return sorted;
}

template <class T>
void write_values(const SortRequest& r, const T* data, const RowGroup& group,
                  const Sorted<T>& sorted) {
  using Key = cpu::KeyOf<T>;
  const Key flip = r.ascend ? Key(0) : static_cast<Key>(~Key(0));
  const Key zero = cpu::order_key(T(0));
  const T* const from = data + group.first_in;
  T* const to = r.value->as<T>() + group.first_out;
  for (int64_t i = 0; i < r.k; ++i)
    for (int64_t w = 0; w < group.width; ++w) {
      const Key key = static_cast<Key>(sorted[w][i].key()) ^ flip;
      to[i * group.step + w] =
          key == zero ? from[sorted[w][i].index() * group.step + w] : cpu::value_of_key<T>(key);
    }
}

template <class Entry>
void write_indices(const SortRequest& r, const RowGroup& group, Entry* const* sorted) {
  dispatch_dtype(r.indices->dtype, [&]<class I>(I) {
    I* const to = r.indices->as<I>() + group.first_out;
    for (int64_t i = 0; i < r.k; ++i)
      for (int64_t w = 0; w < group.width; ++w)
        to[i * group.step + w] = static_cast<I>(static_cast<ComputeType<I>>(sorted[w][i].index()));
  });
}

template <class T>
void write_mask(const SortRequest& r, const RowGroup& group, const Sorted<T>& sorted) {
  T* const to = r.mask->as<T>() + group.first_in;
  for (int64_t w = 0; w < group.width; ++w)
    for (int64_t i = 0; i < r.k; ++i) to[sorted[w][i].index() * group.step + w] = T(1);
}

template <class T>
void sort_rows(KernelContext& ctx, const TensorRef& data, const SortRequest& r) {
  using Entry = cpu::EntryOf<T>;
  const SortView& v = r.view;
  MX_CHECK_KIND(v.length <= std::numeric_limits<uint32_t>::max(), ErrorKind::kNotSupported,
                "sort: the axis must have at most 2^32 - 1 elements, got ", v.length);
  const auto row_bytes = v.length * static_cast<int64_t>(sizeof(Entry));
  const int64_t width =
      std::clamp<int64_t>(kGroupBytes / row_bytes, 1, std::min(kMaxRows, v.inner));
  const int64_t groups = (v.inner + width - 1) / width, tasks = v.outer * groups;
  const bool parallel = tasks > 1 && data.size() > 8192 && !omp_in_parallel();
  const int threads = parallel ? static_cast<int>(std::min<int64_t>(cpu_threads(), tasks)) : 1;
  const int64_t entries_per_thread = (width + 1) * v.length;
  auto* const memory = static_cast<Entry*>(
      ctx.scratch(static_cast<size_t>(threads * entries_per_thread) * sizeof(Entry)));
#pragma omp parallel for if (threads > 1) num_threads(threads)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t outer = task / groups, first = task % groups * width;
    const RowGroup group{outer * v.length * v.inner + first, outer * r.k * v.inner + first, v.inner,
                         std::min(width, v.inner - first)};
    const T* const values = data.as<T>();
    const Sorted<T> sorted =
        sort_group(r, values, group, memory + omp_get_thread_num() * entries_per_thread);
    if (r.value) write_values(r, values, group, sorted);
    if (r.indices) write_indices(r, group, sorted.data());
    if (r.mask) write_mask<T>(r, group, sorted);
  }
}

void sort_all(KernelContext& ctx, const TensorRef& data, const SortRequest& r) {
  if (data.size() == 0) return;
  if (r.mask) cpu::zero_fill(r.mask->data, r.mask->bytes());
  dispatch_dtype(data.dtype, [&]<class T>(T) { sort_rows<T>(ctx, data, r); });
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

// Calls fn(position in the indexed array, position in the indices) for every index.
void along_axis(const Shape& shape, int axis, const TensorRef& index, const int64_t* indices,
                auto fn) {
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

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  const Kernel worker_only{.inline_ok = false};  // takes much longer than the output's size
                                                 // suggests
  ops.cpu_kernel<&sort_native>("sort", worker_only);
  ops.cpu_kernel<&argsort_native>("argsort", worker_only);
  ops.cpu_kernel<&topk_native>("topk", worker_only);
  ops.cpu_kernel<&take_along_axis_native>("_take_along_axis");
  ops.cpu_kernel<&put_along_axis_native>("_put_along_axis");
});

}  // namespace mxlite
