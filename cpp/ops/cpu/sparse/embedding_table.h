// One rank's rows of an embedding table with the states of their optimizer.
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

// The update of one row, by the formula of an update operator that has a form for rows.
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
  int states = 0;         // float32 numbers that the optimizer keeps for each element
  int64_t capacity = -1;  // rows of a growing table on this rank; -1: as many as memory holds
  bool evicts = false;    // a full growing table drops its rarest rows
  double scale = 0;       // initial values are uniform in [-scale, scale)
  uint64_t seed = 0;
};

// Rows are stored XOR their initial values, so memory that is zero holds an initialized table and
// no pass over it is ever needed. Initial values depend on seed, id and column only.
class EmbeddingTable {
 public:
  explicit EmbeddingTable(TableOptions options);

  // Writes the rows of the plan's positions, (count, dim), in float32 or the table's dtype.
  // `inserts`: a growing table keeps ids that it did not know and counts the use of all; otherwise
  // the result has their initial values.
  void gather(const EmbeddingPlan& plan, const TensorRef& out, bool inserts);
  // Adds up the gradients of each id and updates its row; a growing table inserts unknown ids.
  void update(const EmbeddingPlan& plan, const float* grad, const RowRule& rule);

  // Copies of rows: of those that differ from their initial values or, in a growing table, of all
  // that it holds.
  struct Rows {
    std::vector<int64_t> ids, uses;  // uses: of a growing table
    std::vector<std::byte> weights;  // values of the table's dtype
    std::vector<float> states;       // (rows, states, dim)
  };
  // Returns the rows among the next `count` slots from `slot` on.
  Rows read(int64_t slot, int64_t count) const;
  // Writes those of the rows whose ids belong to this rank.
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
  size_t weight_bytes_;  // bytes of a row's weights, with padding
  int64_t rows_ = 0;     // number of rows if the table does not grow
  std::optional<RowMemory> memory_;
  std::optional<RowSlots> slots_;  // null unless the table grows
  mutable std::mutex mutex_;
};

}  // namespace mxlite::sparse
