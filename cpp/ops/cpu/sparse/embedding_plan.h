// Lists the distinct ids of a batch, and for each id its positions in the batch.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/ops/kernel.h"

namespace mxlite::sparse {

enum class IdPolicy : uint8_t {
  kError,  // ids outside of the table raise an error
  kClip,   // ids outside of the table become the nearest valid id
  kHash,   // all ids are hashed to ids of the table
};

struct IdRules {
  std::string table;  // name of the table in errors
  int64_t rows = -1;  // number of rows of the whole table; -1 if every id of at least 0 is valid
  IdPolicy policy = IdPolicy::kError;
  int ranks = 1;  // rank r stores the ids with id % ranks == r
};

// Ids are sorted by rank and then by value, and the positions of an id are ascending, so that sums
// over positions always have the same order. Immutable.
class EmbeddingPlan {
 public:
  // `ids` is contiguous, of any numeric dtype. If the rules refuse ids, throws an index error that
  // names the smallest refused id.
  EmbeddingPlan(const IdRules& rules, const TensorRef& ids);
  // Groups positions into bags: positions [offsets[b], offsets[b + 1]) belong to bag b, and the
  // last bag ends at the last id. Throws a value error if the offsets do not ascend or a bag is
  // empty.
  void make_bags(const std::string& table, std::span<const int64_t> offsets, bool mean);

  int64_t count() const { return static_cast<int64_t>(order_.size()); }  // number of positions
  int64_t outputs() const { return bags_ ? bags_ : count(); }     // number of rows of the result
  const std::vector<int64_t>& ids() const { return ids_; }        // the distinct ids
  const std::vector<int64_t>& counts() const { return counts_; }  // number of distinct ids, by rank
  std::span<const uint32_t> positions(size_t i) const {
    return {order_.data() + begins_[i], static_cast<size_t>(begins_[i + 1] - begins_[i])};
  }
  bool has_bags() const { return bags_ > 0; }

  // Computes the result, float32 (outputs, dim), from the rows of the distinct ids.
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
  // Positions of the batch, grouped by id in the order of ids_. begins_ holds the first index of
  // each group.
  std::vector<uint32_t> order_;
  std::vector<uint32_t> output_of_;  // bag of each position
  std::vector<float> factor_of_;     // factor of each bag
  int64_t bags_ = 0;
};

}  // namespace mxlite::sparse
