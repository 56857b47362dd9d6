// The rows that one batch of ids needs: each once, with the positions of the batch that use it.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/ops/kernel.h"

namespace mxlite::sparse {

enum class IdPolicy : uint8_t {
  kError,  // ids outside of the table are errors
  kClip,   // they become the nearest id of the table
  kHash,   // all ids are hashed into the table
};

struct IdRules {
  std::string table;  // for errors
  int64_t rows = -1;  // rows of the whole table; -1: any id from 0 on
  IdPolicy policy = IdPolicy::kError;
  int ranks = 1;  // rank r has the ids with id % ranks == r
};

// Ids are ordered by rank and then by size, positions of an id by size: sums over them have one
// order. Immutable.
class EmbeddingPlan {
 public:
  // `ids` is contiguous, of any numeric dtype. Throws an index error for the smallest id that the
  // rules refuse.
  EmbeddingPlan(const IdRules& rules, const TensorRef& ids);
  // Makes bags: positions [offsets[b], offsets[b + 1]) belong to bag b, the last bag ends with the
  // ids. Throws a value error for offsets that do not ascend, and for empty bags.
  void make_bags(const std::string& table, std::span<const int64_t> offsets, bool mean);

  int64_t count() const { return static_cast<int64_t>(order_.size()); }  // number of positions
  int64_t outputs() const { return bags_ ? bags_ : count(); }            // rows of the result
  const std::vector<int64_t>& ids() const { return ids_; }               // distinct
  const std::vector<int64_t>& counts() const { return counts_; }         // distinct, by rank
  std::span<const uint32_t> positions(size_t i) const {
    return {order_.data() + begins_[i], static_cast<size_t>(begins_[i + 1] - begins_[i])};
  }
  bool has_bags() const { return bags_ > 0; }

  // Writes the result, float32 (outputs, dim), from the rows of the distinct ids.
  void expand(const TensorRef& rows, float* result) const;
  // Fetches the first gradient of the i-th id into the cache.
  void prefetch_gradient(size_t i, const float* grad, int64_t dim) const {
    const uint32_t p = order_[static_cast<size_t>(begins_[i])];
    const float* const from = grad + (bags_ ? output_of_[p] : p) * dim;
    for (int64_t at = 0; at < dim; at += 16) __builtin_prefetch(from + at);
  }
  // Adds up the gradients of the result at the positions of the i-th id.
  void sum_gradient(size_t i, const float* grad, int64_t dim, float* sum) const;
  // Writes the gradients of all distinct ids, float32 (ids, dim).
  void reduce(const float* grad, int64_t dim, float* sums) const;

 private:
  std::vector<int64_t> ids_, counts_, begins_;
  // Positions, grouped by id in the order of ids_; begins_ has the bounds of the groups.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> output_of_;  // bag of each position
  std::vector<float> factor_of_;     // factor of each bag
  int64_t bags_ = 0;
};

}  // namespace mxlite::sparse
