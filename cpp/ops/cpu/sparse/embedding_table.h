// The rows of an embedding table that one rank stores, with their optimizer states.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cpp/ops/cpu/sparse/embedding_plan.h"
#include "cpp/ops/cpu/sparse/row_memory.h"
#include "cpp/ops/cpu/sparse/row_slots.h"
#include "cpp/ops/optimizer/run_update.h"

namespace mxlite::optimizer {
template <class C>
struct Block;
}

namespace mxlite::sparse {

// Updates one row by the formula of an update operator.
struct RowRule {
  int states = 0;
  std::function<void(const optimizer::Block<float>&)> run;
};
// `op` is "adam_update", "sgd_update", ... Throws a not-supported error for other operators.
// Ignores parameters that the operator does not have.
RowRule make_row_rule(const std::string& op, std::span<const optimizer::NamedNumber> params);
int states_of_row_rule(const std::string& op);

struct TableOptions {
  IdRules ids;
  int rank = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  int states = 0;  // float32 numbers that the optimizer keeps for each element
  // Maximum number of rows of a growing table on this rank; -1: as many as memory holds.
  int64_t capacity = -1;
  bool evicts = false;  // whether a full growing table drops its least used rows
  double scale = 0;     // initial values are uniform in [-scale, scale)
  uint64_t seed = 0;
};

// Rows are stored as the XOR with their initial values. Zeroed memory is thus an initialized table,
// and no pass over the table is needed. Initial values depend only on seed, id and column.
class EmbeddingTable {
 public:
  explicit EmbeddingTable(TableOptions options);

  // Writes the rows of the plan's positions, (count, dim), in float32 or the table's dtype.
  // With `inserts`, a growing table inserts unknown ids and counts the uses of all ids. Otherwise,
  // the result has the initial values of unknown ids.
  void gather(const EmbeddingPlan& plan, const TensorRef& out, bool inserts);
  // Adds up the gradients of each id and updates its row; a growing table inserts unknown ids.
  void update(const EmbeddingPlan& plan, const float* grad, const RowRule& rule);

  // Copies of the rows that differ from their initial values or, in a growing table, of all stored
  // rows.
  struct Rows {
    std::vector<int64_t> ids, uses;  // `uses` is set only by a growing table
    std::vector<std::byte> weights;  // values of the table's dtype
    std::vector<float> states;       // (rows, states, dim)
  };
  // Returns the rows in the slots [slot, slot + count).
  Rows read(int64_t slot, int64_t count) const;
  // Stores the given rows whose ids belong to this rank.
  void write(const Rows& rows);

  int64_t slots() const { return slots_ ? slots_->end() : rows_; }
  int64_t size() const { return slots_ ? slots_->size() : rows_; }
  size_t row_bytes() const { return memory_->row_bytes(); }
  const TableOptions& options() const { return options_; }

 private:
  std::vector<int64_t> find(const EmbeddingPlan& plan, bool inserts);
  int64_t insert(int64_t id);
  bool owns(int64_t id) const { return id >= 0 && id % options_.ids.ranks == options_.rank; }
  template <class T>
  class Codec;
  template <class T, class Out>
  void gather_as(const EmbeddingPlan& plan, const std::vector<int64_t>& slots, Out* out) const;
  float* states_of(std::byte* row) const { return reinterpret_cast<float*>(row + weight_bytes_); }

  TableOptions options_;
  float step_;
  size_t weight_bytes_;  // bytes of a row's weights, including padding
  int64_t rows_ = 0;     // number of rows if the table does not grow
  std::optional<RowMemory> memory_;
  std::optional<RowSlots> slots_;  // null unless the table grows
  mutable std::mutex mutex_;
};

}  // namespace mxlite::sparse
