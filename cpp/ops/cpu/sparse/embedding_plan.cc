#include "cpp/ops/cpu/sparse/embedding_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/sparse/embedding_hash.h"

namespace mxlite::sparse {
namespace {

struct WideEntry {
  uint64_t key;
  uint32_t position;
};
// Key and position in one 64-bit number, for keys of 32 bits. Sorting then moves half as many
// bytes.
struct NarrowEntry {
  uint32_t position, key;
};

// Sorts entries by key; entries with equal keys keep their order.
template <class Entry>
void radix_sort(std::vector<Entry>& entries, uint64_t largest) {
  constexpr int kBits = 11;
  std::vector<Entry> other(entries.size());
  for (int shift = 0; shift < static_cast<int>(std::bit_width(largest)); shift += kBits) {
    std::array<size_t, (1 << kBits) + 1> begins{};
    const auto digit = [&](const Entry& e) { return e.key >> shift & ((1 << kBits) - 1); };
    for (const Entry& e : entries) ++begins[digit(e) + 1];
    for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
    for (const Entry& e : entries) other[begins[digit(e)]++] = e;
    entries.swap(other);
  }
}

// Returns the index of an element as text: "3" or "(1, 2)".
std::string index_text(const Shape& shape, int64_t position) {
  if (shape.ndim() == 1) return str(position);
  std::string text;
  for (int d = shape.ndim() - 1; d >= 0; position /= shape[d--])
    text = str(position % shape[d], text.empty() ? "" : ", ", text);
  return str("(", text, ")");
}

// Applies the policy to the ids, and returns the largest resulting id.
int64_t apply_policy(const IdRules& rules, const Shape& shape, int64_t* ids, int64_t count) {
  const int64_t last = rules.rows < 0 ? std::numeric_limits<int64_t>::max() : rules.rows - 1;
  int64_t bad = -1, largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (rules.policy == IdPolicy::kHash)
      ids[i] = static_cast<int64_t>(mixed(static_cast<uint64_t>(ids[i])) %
                                    static_cast<uint64_t>(rules.rows));
    else if (rules.policy == IdPolicy::kClip)
      ids[i] = std::clamp<int64_t>(ids[i], 0, last);
    else if ((ids[i] < 0 || ids[i] > last) && (bad < 0 || ids[i] < ids[bad]))
      bad = i;
    largest = std::max(largest, ids[i]);
  }
  MX_CHECK_KIND(bad < 0, ErrorKind::kIndex, "ShardedEmbedding ", rules.table, ": ids must be ",
                rules.rows < 0 ? std::string("0 or more") : str("from 0 to ", last), ", got ",
                ids[bad], " at position ", index_text(shape, bad));
  return largest;
}

}  // namespace

EmbeddingPlan::EmbeddingPlan(const IdRules& rules, const TensorRef& ids)
    : counts_(static_cast<size_t>(rules.ranks)), begins_{0} {
  const int64_t count = ids.size();
  MX_CHECK_SHAPE(count <= std::numeric_limits<uint32_t>::max(), "ShardedEmbedding ", rules.table,
                 ": ids must have less than 2^32 elements, got ", count);
  std::vector<int64_t> values(static_cast<size_t>(count));
  const int64_t* const given = cpu::index_values(ids, values.data());
  if (given != values.data()) std::copy_n(given, count, values.data());
  const int64_t largest = apply_policy(rules, ids.shape, values.data(), count);
  const auto ranks = static_cast<uint64_t>(rules.ranks);
  const uint64_t stride = static_cast<uint64_t>(largest) / ranks + 1;
  const uint64_t last = ranks == 1 ? static_cast<uint64_t>(largest) : ranks * stride;
  const auto fill = [&]<class Entry>(std::vector<Entry> entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto id = static_cast<uint64_t>(values[i]);
      entries[i].key =
          static_cast<decltype(Entry::key)>(ranks == 1 ? id : id % ranks * stride + id / ranks);
      entries[i].position = static_cast<uint32_t>(i);
    }
    radix_sort(entries, last);
    order_.resize(entries.size());
    ids_.reserve(entries.size());
    begins_.reserve(entries.size() + 1);
    for (size_t i = 0; i < entries.size(); ++i) {
      order_[i] = entries[i].position;
      if (i > 0 && entries[i].key == entries[i - 1].key) continue;
      if (i > 0) begins_.push_back(static_cast<int64_t>(i));
      const uint64_t key = entries[i].key;
      const uint64_t id = ranks == 1 ? key : key % stride * ranks + key / stride;
      ids_.push_back(static_cast<int64_t>(id));
      ++counts_[ranks == 1 ? 0 : key / stride];
    }
  };
  if (last <= std::numeric_limits<uint32_t>::max())
    fill(std::vector<NarrowEntry>(static_cast<size_t>(count)));
  else
    fill(std::vector<WideEntry>(static_cast<size_t>(count)));
  if (count > 0) begins_.push_back(count);
}

void EmbeddingPlan::make_bags(const std::string& table, std::span<const int64_t> offsets,
                              bool mean) {
  bags_ = static_cast<int64_t>(offsets.size());
  output_of_.resize(order_.size());
  factor_of_.assign(offsets.size(), 1.0f);
  MX_CHECK(bags_ > 0 && offsets[0] == 0, "ShardedEmbedding ", table,
           ": offsets must begin with 0, got ", bags_ ? str(offsets[0]) : std::string("none"));
  for (int64_t b = 0; b < bags_; ++b) {
    const auto at = static_cast<size_t>(b);
    const int64_t begin = offsets[at], end = b + 1 < bags_ ? offsets[at + 1] : count();
    MX_CHECK(begin <= end && end <= count(), "ShardedEmbedding ", table,
             ": offsets must ascend to at most ", count(), ", the number of ids, got ", end,
             " after ", begin);
    MX_CHECK(begin < end, "ShardedEmbedding ", table, ": bags must have at least one id, but bag ",
             b, " is empty");
    std::fill(output_of_.begin() + begin, output_of_.begin() + end, static_cast<uint32_t>(b));
    if (mean) factor_of_[at] = 1.0f / static_cast<float>(end - begin);
  }
}

void EmbeddingPlan::expand(const TensorRef& rows, float* result) const {
  const int64_t dim = rows.shape[1];
  dispatch_floating("ShardedEmbedding", rows.dtype, [&](auto t) {
    using T = decltype(t);
    const T* const from = rows.as<T>();
    if (!has_bags()) {
      cpu::parallel_for(static_cast<int64_t>(ids_.size()), dim, [&](int64_t i) {
        for (const uint32_t p : positions(static_cast<size_t>(i)))
          cpu::convert_run(from + i * dim, result + p * dim, dim);
      });
      return;
    }
    std::vector<uint32_t> row_of(order_.size());
    for (size_t i = 0; i < ids_.size(); ++i)
      for (const uint32_t p : positions(i)) row_of[p] = static_cast<uint32_t>(i);
    std::fill_n(result, outputs() * dim, 0.0f);
    for (size_t p = 0; p < row_of.size(); ++p) {
      float* const to = result + output_of_[p] * dim;
      const T* const row = from + row_of[p] * dim;
      for (int64_t j = 0; j < dim; ++j)
        to[j] += factor_of_[output_of_[p]] * static_cast<float>(row[j]);
    }
  });
}

void EmbeddingPlan::sum_gradient(size_t i, const float* grad, int64_t dim, float* sum) const {
  const std::span<const uint32_t> at = positions(i);
  if (!has_bags()) {
    std::copy_n(grad + at[0] * dim, dim, sum);
    for (const uint32_t p : at.subspan(1))
      for (int64_t j = 0; j < dim; ++j) sum[j] += grad[p * dim + j];
    return;
  }
  std::fill_n(sum, dim, 0.0f);
  for (const uint32_t p : at)
    for (int64_t j = 0; j < dim; ++j)
      sum[j] += factor_of_[output_of_[p]] * grad[output_of_[p] * dim + j];
}

void EmbeddingPlan::reduce(const float* grad, int64_t dim, float* sums) const {
  cpu::parallel_for(static_cast<int64_t>(ids_.size()), 4 * dim, [&](int64_t i) {
    sum_gradient(static_cast<size_t>(i), grad, dim, sums + i * dim);
  });
}

}  // namespace mxlite::sparse
