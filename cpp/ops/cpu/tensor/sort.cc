// An entry is a key, with an index if the caller needs it (ordering.h). Each element of a row
// becomes an entry. Rows of moderate length are sorted in groups by a network. If the axis is not
// the last axis, neighboring rows are read and written together, because their elements share cache
// lines.
#include "cpp/ops/tensor/sort.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "cpp/core/openmp.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/sorting_network.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kMaxRows = 16;                   // number of rows that are sorted together
constexpr int64_t kGroupBytes = int64_t{4} << 20;  // limit of the bytes of these rows' entries
constexpr int64_t kLongRow = 32768;  // a single row that is longer is divided among threads

int64_t padded_length(int64_t length) { return (length + 7) & ~int64_t{7}; }

struct SortRequest {
  SortView view;
  int64_t k;
  bool ascend;
  const TensorRef* value = nullptr;
  const TensorRef* indices = nullptr;
  const TensorRef* mask = nullptr;
};

// Rows that are sorted together: element i of row w is at first + i * step + w * next.
struct RowGroup {
  int64_t first_in, first_out, step, next_in, next_out, width;
};

// The sorted entries: entry i of row w is rows[w][i * step].
template <class Entry>
struct Sorted {
  std::array<const Entry*, kMaxRows> rows;
  int64_t step = 1;
};

// Calls fn(i) for 0 <= i < count.
void for_each_position(int64_t count, int threads, auto&& fn) {
  const auto range = [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  };
  share_range(count, 1, 2, range, threads);
}

// Calls fn(i, w) for the first k entries of the rows, along the outputs' memory.
void for_each_element(const SortRequest& r, const RowGroup& group, int threads, auto&& fn) {
  if (group.step == 1) {
    for (int64_t w = 0; w < group.width; ++w)
      for_each_position(r.k, threads, [&](int64_t i) { fn(i, w); });
  } else {
    for (int64_t i = 0; i < r.k; ++i)
      for (int64_t w = 0; w < group.width; ++w) fn(i, w);
  }
}

template <class Entry>
constexpr bool kHasIndex = requires(Entry entry) {
  entry.index();
};

// Returns the entry of an element. Without an index, the key also tells -0 from 0.
template <class Entry, class T>
Entry make_entry(const SortRequest& r, T value, int64_t i) {
  using Key = cpu::KeyOf<T>;
  const Key key = cpu::order_key<T, !kHasIndex<Entry>>(value);
  return Entry::make(r.ascend ? key : static_cast<Key>(~key), i);
}

// Sorts the rows of a group that one network takes. `memory` has room for 2 * kRows padded rows.
template <class T, class Entry>
Sorted<Entry> sort_by_network(const SortRequest& r, const T* values, const RowGroup& group,
                              Entry* memory) {
  using Network = cpu::SortingNetwork<typename Entry::Word>;
  constexpr int64_t kRows = Network::kRows;
  const int64_t length = r.view.length, padded = padded_length(length);
  Entry* const room = memory + kRows * padded;
  Sorted<Entry> sorted;
  if (group.width < kRows || padded > length)
    std::memset(static_cast<void*>(memory), 0xFF,
                static_cast<size_t>(kRows * padded) * sizeof(Entry));
  const auto between = [&](int64_t to_step, int64_t to_next, int64_t step, int64_t next) {
    cpu::CopyAxes axes;
    axes.push_back({length, to_step, step});
    axes.push_back({group.width, to_next, next});
    return axes;
  };
  if (group.step == 1) {
    for (int64_t w = 0; w < group.width; ++w)
      for (int64_t i = 0; i < length; ++i)
        room[w * padded + i] = make_entry<Entry>(r, values[w * group.next_in + i], i);
    cpu::strided_copy(sizeof(Entry), between(kRows, 1, 1, padded), memory, room);
  } else {
    for (int64_t i = 0; i < length; ++i)
      for (int64_t w = 0; w < group.width; ++w)
        memory[i * kRows + w] = make_entry<Entry>(r, values[i * group.step + w], i);
  }
  Network::sort(reinterpret_cast<typename Entry::Word*>(memory), padded);
  if (group.step == 1) cpu::strided_copy(sizeof(Entry), between(1, padded, kRows, 1), room, memory);
  sorted.step = group.step == 1 ? 1 : kRows;
  for (int64_t w = 0; w < group.width; ++w)
    sorted.rows[w] = group.step == 1 ? room + w * padded : memory + w;
  return sorted;
}

// Finds the first k entries of every row of the group. `memory` has room for width + 1 rows.
template <class T, class Entry>
Sorted<Entry> sort_group(const SortRequest& r, const T* values, const RowGroup& group,
                         Entry* memory, int threads) {
  const int64_t length = r.view.length, width = group.width;
  Sorted<Entry> sorted;
  if (group.step == 1 && cpu::selects(length, r.k)) {  // with selection, most elements are never
                                                       // stored as entries
    const auto entry_at = [&](int64_t i) { return make_entry<Entry>(r, values[i], i); };
    cpu::select_first(entry_at, length, r.k, memory);
    sorted.rows[0] = memory;
    return sorted;
  }
  for_each_position(length, threads, [&](int64_t i) {
    for (int64_t w = 0; w < width; ++w)
      memory[w * length + i] = make_entry<Entry>(r, values[i * group.step + w], i);
  });
  Entry* const room = memory + width * length;
  for (int64_t w = 0; w < width; ++w) {
    Entry* const own = memory + w * length;
    const Entry* found = cpu::selects(length, r.k)
                             ? cpu::sort_first(own, room, length, r.k)
                             : cpu::sort_in_parallel(own, room, length, threads);
    if (width > 1 && found == room) found = std::copy_n(room, r.k, own) - r.k;
    sorted.rows[w] = found;
  }
  return sorted;
}

template <class T, class Entry>
void write_values(const SortRequest& r, const T* from, const RowGroup& group,
                  const Sorted<Entry>& sorted, int threads) {
  using Key = cpu::KeyOf<T>;
  const Key flip = r.ascend ? Key(0) : static_cast<Key>(~Key(0));
  const Key zero = cpu::order_key(T(0));
  T* const to = r.value->as<T>() + group.first_out;
  const auto write = [&](int64_t i, int64_t w) {
    const Entry entry = sorted.rows[w][i * sorted.step];
    const Key key = static_cast<Key>(entry.key()) ^ flip;
    T& value = to[i * group.step + w * group.next_out];
    if constexpr (kHasIndex<Entry>) {
      if (key == zero) {
        value = from[entry.index() * group.step + w * group.next_in];
        return;
      }
    }
    value = cpu::value_of_key<T>(key);
  };
  for_each_element(r, group, threads, write);
}

template <class Entry>
void write_indices(const SortRequest& r, const RowGroup& group, const Sorted<Entry>& sorted,
                   int threads) {
  dispatch_dtype(r.indices->dtype, [&]<class I>(I) {
    I* const to = r.indices->as<I>() + group.first_out;
    for_each_element(r, group, threads, [&](int64_t i, int64_t w) {
      const int64_t index = sorted.rows[w][i * sorted.step].index();
      to[i * group.step + w * group.next_out] = static_cast<I>(static_cast<ComputeType<I>>(index));
    });
  });
}

template <class T, class Entry>
void write_mask(const SortRequest& r, const RowGroup& group, const Sorted<Entry>& sorted) {
  T* const to = r.mask->as<T>() + group.first_in;
  for_each_element(r, group, 1, [&](int64_t i, int64_t w) {
    to[sorted.rows[w][i * sorted.step].index() * group.step + w * group.next_in] = T(1);
  });
}

// Returns how many rows a network sorts at once, or 0 if the request needs another algorithm.
template <class Entry>
int64_t network_rows(const SortRequest& r, int64_t lines) {
  if constexpr (sizeof(Entry) <= 8) {
    using Network = cpu::SortingNetwork<typename Entry::Word>;
    constexpr int64_t kShort = 128;  // even one row of this length is sorted faster by a network
    const int64_t length = r.view.length;
    if (r.k == length && length <= (lines * 2 >= Network::kRows ? Network::kLongest : kShort))
      return Network::kRows;
  }
  return 0;
}

template <class T, class Entry>
void sort_rows(KernelContext& ctx, const TensorRef& data, const SortRequest& r) {
  const SortView& v = r.view;
  MX_CHECK_KIND(v.length <= std::numeric_limits<uint32_t>::max(), ErrorKind::kNotSupported,
                "sort: the axis must have at most 2^32 - 1 elements, got ", v.length);
  const bool last_axis = v.inner == 1;
  const int64_t lines = last_axis ? v.outer : v.inner, blocks = last_axis ? 1 : v.outer;
  const int64_t in_network = network_rows<Entry>(r, lines);
  const auto row_bytes = v.length * static_cast<int64_t>(sizeof(Entry));
  const int64_t width =
      in_network  ? in_network
      : last_axis ? 1
                  : std::clamp<int64_t>(kGroupBytes / row_bytes, 1, std::min(kMaxRows, v.inner));
  const int64_t groups = (lines + width - 1) / width, tasks = blocks * groups;
  const int all_threads = data.size() > 8192 && !openmp::in_parallel() ? cpu_threads() : 1;
  const int threads = static_cast<int>(std::min<int64_t>(all_threads, tasks));
  const int threads_in_row = tasks == 1 && v.length > kLongRow ? all_threads : 1;
  const int64_t entries_per_thread =
      in_network ? 2 * width * padded_length(v.length) : (width + 1) * v.length;
  auto* const memory = static_cast<Entry*>(
      ctx.scratch(static_cast<size_t>(threads * entries_per_thread) * sizeof(Entry)));
  const auto run = [&](int64_t task, int thread) {
    const int64_t outer = task / groups, first = task % groups * width;
    const int64_t next_in = last_axis ? v.length : 1, next_out = last_axis ? r.k : 1;
    const RowGroup group{outer * v.length * v.inner + first * next_in,
                         outer * r.k * v.inner + first * next_out,
                         v.inner,
                         next_in,
                         next_out,
                         std::min(width, lines - first)};
    const T* const values = data.as<T>() + group.first_in;
    Entry* const own = memory + thread * entries_per_thread;
    const Sorted<Entry> sorted = [&] {
      if constexpr (sizeof(Entry) <= 8)
        if (in_network) return sort_by_network(r, values, group, own);
      return sort_group(r, values, group, own, threads_in_row);
    }();
    if (r.value) write_values(r, values, group, sorted, threads_in_row);
    if constexpr (kHasIndex<Entry>) {
      if (r.indices) write_indices(r, group, sorted, threads_in_row);
      if (r.mask) write_mask<T>(r, group, sorted);
    }
  };
  const auto range = [&](int64_t first_task, int64_t last_task, int thread) {
    for (int64_t task = first_task; task < last_task; ++task) run(task, thread);
  };
  share_range(tasks, 1, data.size() / tasks * 8, range, threads);
}

void sort_all(KernelContext& ctx, const TensorRef& data, const SortRequest& r) {
  if (data.size() == 0) return;
  if (r.mask) cpu::zero_fill(r.mask->data, r.mask->bytes());
  dispatch_dtype(data.dtype, [&]<class T>(T) {
    if (r.indices || r.mask || r.k < r.view.length)
      sort_rows<T, cpu::EntryOf<T>>(ctx, data, r);
    else
      sort_rows<T, cpu::KeyEntry<cpu::KeyOf<T>>>(ctx, data, r);
  });
}

void sort_native(KernelContext& ctx, const SortParams& p, Inputs in, Outputs out) {
  const SortView v = sort_view("sort", p.axis, in[0].shape);
  sort_all(ctx, in[0], {v, v.length, p.is_ascend, &out[0]});
}

// Few elements are sorted in less time than passing the task to a worker takes.
const char* is_short(const SortParams&, std::span<const TensorSpec> in,
                     std::span<const TensorSpec>) {
  constexpr int64_t kFew = 512;
  return in[0].shape.size() <= kFew ? nullptr : "large";
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
  cpu::parallel_for(v.outer * k, 4 * v.inner, [&](int64_t row) {
    const int64_t first = row / k * v.length;
    for (int64_t j = 0; j < v.inner; ++j) {
      const int64_t i = row * v.inner + j;
      fn((first + std::clamp<int64_t>(indices[i], 0, v.length - 1)) * v.inner + j, i);
    }
  });
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

static const Registration sort_registration(Stage::kKernels, [](OpRegistry& ops) {
  const Kernel worker_only{.inline_ok = false};  // takes much longer than the output's size
                                                 // suggests
  ops.cpu_kernel<&sort_native>("sort", {.name = "small", .supports = supports_if<&is_short>()});
  ops.cpu_kernel<&sort_native>("sort", worker_only);
  ops.cpu_kernel<&argsort_native>("argsort", worker_only);
  ops.cpu_kernel<&topk_native>("topk", worker_only);
  ops.cpu_kernel<&take_along_axis_native>("_take_along_axis");
  ops.cpu_kernel<&put_along_axis_native>("_put_along_axis");
});

}  // namespace mxlite
