#include "cpp/ops/vision/bipartite_matching.h"

#include <algorithm>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Scores that cannot match are removed before sorting, because most overlaps are 0.
template <class T>
void match(const BipartiteMatchingParams& p, const T* scores, int64_t rows, int64_t columns,
           cpu::EntryOf<T>* entries, cpu::EntryOf<T>* room, T* row_match, T* column_match) {
  using Acc = ComputeType<T>;
  using Entry = cpu::EntryOf<T>;
  int64_t count = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const Acc score = static_cast<Acc>(scores[i]);
    if (p.is_ascend ? score < p.threshold : score > p.threshold)
      entries[count++] =
          Entry::make(p.is_ascend ? cpu::order_key(scores[i]) : cpu::falling_key(scores[i]), i);
  }
  const Entry* const sorted = cpu::sort_entries(entries, room, count);
  std::fill_n(row_match, rows, T(-1.0f));
  std::fill_n(column_match, columns, T(-1.0f));
  int64_t left = std::min(rows, columns);
  if (p.topk > 0) left = std::min<int64_t>(left, int64_t{p.topk} + 1);
  for (int64_t i = 0; i < count && left > 0; ++i) {
    const int64_t row = sorted[i].index() / columns, column = sorted[i].index() % columns;
    if (static_cast<Acc>(row_match[row]) >= 0 || static_cast<Acc>(column_match[column]) >= 0)
      continue;
    row_match[row] = static_cast<T>(static_cast<Acc>(column));
    column_match[column] = static_cast<T>(static_cast<Acc>(row));
    --left;
  }
}

void matching_native(KernelContext& ctx, const BipartiteMatchingParams& p, Inputs in, Outputs out) {
  const Shape& shape = in[0].shape;
  const int64_t rows = shape[shape.ndim() - 2], columns = shape.back(), size = rows * columns;
  const int64_t matrices = shape.product(0, shape.ndim() - 2);
  dispatch_floating("_contrib_bipartite_matching", in[0].dtype, [&]<class T>(T) {
    using Entry = cpu::EntryOf<T>;
    const auto threads = std::min<int64_t>(cpu_threads(), matrices);
    auto* const entries =
        static_cast<Entry*>(ctx.scratch(static_cast<size_t>(2 * size * threads) * sizeof(Entry)));
    cpu::parallel_ranges(matrices, size * 16, [&](int64_t begin, int64_t end, int thread) {
      Entry* const own = entries + 2 * size * thread;
      for (int64_t i = begin; i < end; ++i)
        match(p, in[0].as<T>() + i * size, rows, columns, own, own + size,
              out[0].as<T>() + i * rows, out[1].as<T>() + i * columns);
    });
  });
}

}  // namespace

static const Registration bipartite_matching_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&matching_native>("_contrib_bipartite_matching", {.inline_ok = false});
});

}  // namespace mxlite
