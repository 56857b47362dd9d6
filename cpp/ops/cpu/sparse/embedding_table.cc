#include "cpp/ops/cpu/sparse/embedding_table.h"

#include <algorithm>
#include <cstring>

#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/optimizer/rules.h"
#include "cpp/ops/cpu/sparse/embedding_hash.h"

namespace mxlite::sparse {
namespace {

constexpr size_t kAhead = 8;  // number of rows that are fetched into the cache ahead of use
constexpr int64_t kCost = 8;  // work per element, as parallel_ranges counts it

// Calls fn(update) with the entry `op` of the table of updates. This entry must have an update of
// single rows.
void with_row_update(const std::string& op, auto&& fn) {
  bool found = false;
  optimizer::for_each_update([&](const auto& update) {
    if (update.name != op || update.row_update.op.empty()) return;
    found = true;
    fn(update);
  });
  MX_CHECK_KIND(
      found, ErrorKind::kNotSupported,
      "ShardedEmbedding: the optimizer must be SGD, AdaGrad, Adam or Ftrl, got an update by ", op);
}

// Calls fn(T{}) with the C++ type of a table's dtype.
void dispatch_rows(DType dtype, auto&& fn) {
  if (dtype == DType::kFloat16) return fn(float16{});
  if (dtype == DType::kBFloat16) return fn(bfloat16{});
  fn(float{});
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

template <class T>
BitsOf<T> initial_bits(uint64_t key, int64_t column, float step) {
  return step == 0 ? BitsOf<T>{0} : std::bit_cast<BitsOf<T>>(T(initial_value(key, column, step)));
}

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

RowRule make_row_rule(const std::string& op, std::span<const optimizer::NamedNumber> params) {
  const std::vector<std::string> known = optimizer::form_of_update(op).params;
  std::vector<optimizer::NamedNumber> taken;
  for (const auto& param : params)
    if (std::find(known.begin(), known.end(), param.first) != known.end()) taken.push_back(param);
  const ParamsRef values = optimizer::params_of_update(op, taken);
  RowRule rule;
  with_row_update(op, [&]<class P, template <class> class R, size_t kStates, bool kPreloaded>(
                          const optimizer::Update<P, R, kStates, kPreloaded>&) {
    rule.states = static_cast<int>(kStates);
    rule.run = R<float>(*static_cast<const P*>(values.get()));
  });
  return rule;
}

int states_of_row_rule(const std::string& op) {
  int states = 0;
  with_row_update(op, [&](const auto& update) { states = static_cast<int>(update.states.size()); });
  return states;
}

EmbeddingTable::EmbeddingTable(TableOptions options)
    : options_(std::move(options)),
      step_(static_cast<float>(options_.scale * 0x1p-23)),
      weight_bytes_(padded(static_cast<size_t>(options_.dim) * dtype_size(options_.dtype))) {
  const size_t row_bytes =
      weight_bytes_ + static_cast<size_t>(options_.dim * options_.states) * sizeof(float);
  const int64_t whole = options_.ids.rows, ranks = options_.ids.ranks;
  if (whole < 0) {
    memory_.emplace(options_.ids.table, row_bytes, options_.capacity);
    slots_.emplace();
    return;
  }
  rows_ = (whole - options_.rank + ranks - 1) / ranks;
  memory_.emplace(options_.ids.table, row_bytes, rows_);
  memory_->require(rows_);
}

// Converts rows of one table. Keeps the initial values of the row that was loaded last.
template <class T>
class EmbeddingTable::Codec {
 public:
  explicit Codec(const EmbeddingTable& table)
      : table_(table), initial_(static_cast<size_t>(table.options_.dim)) {}
  void load(const std::byte* row, int64_t id, float* values) {
    const auto* const bits = reinterpret_cast<const Bits*>(row);
    const uint64_t key = mixed(static_cast<uint64_t>(id) ^ mixed(table_.options_.seed));
    Bits* const initial = initial_.data();
    const float step = table_.step_;
    for (int64_t j = 0, dim = table_.options_.dim; j < dim; ++j) {
      initial[j] = initial_bits<T>(key, j, step);
      values[j] = static_cast<float>(std::bit_cast<T>(static_cast<Bits>(bits[j] ^ initial[j])));
    }
  }
  // Must be called after a load of the same row.
  void store(std::byte* row, const float* values) const {
    auto* const bits = reinterpret_cast<Bits*>(row);
    for (size_t j = 0; j < initial_.size(); ++j)
      bits[j] = static_cast<Bits>(std::bit_cast<Bits>(T(values[j])) ^ initial_[j]);
  }

 private:
  using Bits = BitsOf<T>;
  const EmbeddingTable& table_;
  std::vector<Bits> initial_;
};

int64_t EmbeddingTable::insert(int64_t id) {
  if (slots_->size() == slots_->end()) memory_->require(slots_->end() + 1);
  return slots_->add(id);
}

// Returns the slot of each distinct id, or -1 if the table lacks the id.
std::vector<int64_t> EmbeddingTable::find(const EmbeddingPlan& plan, bool inserts) {
  const std::vector<int64_t>& ids = plan.ids();
  std::vector<int64_t> slots(ids.size());
  for (const int64_t id : ids)
    MX_CHECK_KIND(owns(id) && (slots_ || id < options_.ids.rows), ErrorKind::kIndex,
                  "ShardedEmbedding ", options_.ids.table, ": id ", id,
                  " does not belong to this rank");
  std::vector<int64_t> missing;  // indices of the ids that the table lacks
  cpu::parallel_for(static_cast<int64_t>(ids.size()), 64, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    slots[at] = slots_ ? slots_->find(ids[at]) : ids[at] / options_.ids.ranks;
  });
  if (!slots_ || !inserts) return slots;
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] < 0) missing.push_back(static_cast<int64_t>(i));
  const int64_t room = memory_->most_rows() - slots_->size();
  if (const auto wanted = static_cast<int64_t>(missing.size()); wanted > room) {
    MX_CHECK_KIND(options_.evicts, ErrorKind::kOutOfMemory, "ShardedEmbedding ", options_.ids.table,
                  ": this rank has memory for ", memory_->most_rows(), " rows of ", row_bytes(),
                  " bytes, which the new ids of this batch exceed by ", wanted - room,
                  "; set evict=True, raise capacity, or use more ranks");
    MX_CHECK_KIND(static_cast<int64_t>(ids.size()) <= memory_->most_rows(), ErrorKind::kOutOfMemory,
                  "ShardedEmbedding ", options_.ids.table, ": the ", ids.size(),
                  " distinct ids of a batch exceed the ", memory_->most_rows(),
                  " rows that fit this rank");
    for (const int64_t slot :
         slots_->evict(std::max(wanted - room, memory_->most_rows() / 8), slots))
      std::memset(memory_->row(slot), 0, row_bytes());
  }
  for (const int64_t i : missing)
    slots[static_cast<size_t>(i)] = insert(ids[static_cast<size_t>(i)]);
  return slots;
}

template <class T, class Out>
void EmbeddingTable::gather_as(const EmbeddingPlan& plan, const std::vector<int64_t>& slots,
                               Out* out) const {
  const int64_t dim = options_.dim;
  const std::vector<std::byte> initialized(row_bytes());
  cpu::parallel_ranges(
      static_cast<int64_t>(slots.size()), kCost * dim, [&](int64_t begin, int64_t end, int) {
        std::vector<float> values(static_cast<size_t>(dim));
        Codec<T> codec(*this);
        for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
          if (i + kAhead < slots.size() && slots[i + kAhead] >= 0)
            __builtin_prefetch(memory_->row(slots[i + kAhead]));
          codec.load(slots[i] < 0 ? initialized.data() : memory_->row(slots[i]), plan.ids()[i],
                     values.data());
          for (const uint32_t p : plan.positions(i))
            cpu::convert_run(values.data(), out + p * dim, dim);
        }
      });
}

void EmbeddingTable::gather(const EmbeddingPlan& plan, const TensorRef& out, bool inserts) {
  const std::lock_guard lock(mutex_);
  const std::vector<int64_t> slots = find(plan, inserts);
  if (slots_ && inserts)
    for (size_t i = 0; i < slots.size(); ++i)
      slots_->use(slots[i], static_cast<int64_t>(plan.positions(i).size()));
  MX_ASSERT(out.size() == plan.count() * options_.dim);
  dispatch_rows(options_.dtype, [&](auto t) {
    using T = decltype(t);
    if (out.dtype == DType::kFloat32) return gather_as<T>(plan, slots, out.as<float>());
    MX_ASSERT(out.dtype == options_.dtype);
    gather_as<T>(plan, slots, out.as<T>());
  });
}

void EmbeddingTable::update(const EmbeddingPlan& plan, const float* grad, const RowRule& rule) {
  const std::lock_guard lock(mutex_);
  MX_CHECK(rule.states == options_.states, "ShardedEmbedding ", options_.ids.table,
           ": the optimizer must keep ", options_.states, " states, got an optimizer with ",
           rule.states);
  const FlushSubnormals flush;  // as in the update operators
  const std::vector<int64_t> slots = find(plan, true);
  const int64_t dim = options_.dim;
  dispatch_rows(options_.dtype, [&](auto t) {
    using T = decltype(t);
    cpu::parallel_ranges(
        static_cast<int64_t>(slots.size()), kCost * dim, [&](int64_t begin, int64_t end, int) {
          std::vector<float> values(static_cast<size_t>(2 * dim));
          float *const weight = values.data(), *const sum = weight + dim;
          Codec<T> codec(*this);
          for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
            if (i + kAhead < slots.size()) {
              const std::byte* const next = memory_->row(slots[i + kAhead]);
              for (size_t at = 0; at < row_bytes(); at += 64) __builtin_prefetch(next + at, 1);
              plan.prefetch_gradient(i + kAhead, grad, dim);
            }
            std::byte* const row = memory_->row(slots[i]);
            plan.sum_gradient(i, grad, dim, sum);
            codec.load(row, plan.ids()[i], weight);
            optimizer::Block<float> block{weight, sum, {}, weight, dim};
            for (int s = 0; s < rule.states; ++s) block.state[s] = states_of(row) + s * dim;
            rule.run(block);
            codec.store(row, weight);
          }
        });
  });
}

EmbeddingTable::Rows EmbeddingTable::read(int64_t slot, int64_t count) const {
  const std::lock_guard lock(mutex_);
  Rows rows;
  const size_t row_states = static_cast<size_t>(options_.states * options_.dim);
  const size_t values_bytes = static_cast<size_t>(options_.dim) * dtype_size(options_.dtype);
  std::vector<float> values(static_cast<size_t>(options_.dim));
  for (const int64_t end = std::min(slots(), slot + count); slot < end; ++slot) {
    std::byte* const row = memory_->row(slot);
    if (slots_ ? slots_->id(slot) < 0
               : std::all_of(row, row + row_bytes(), [](std::byte b) { return b == std::byte{0}; }))
      continue;
    const int64_t id = slots_ ? slots_->id(slot) : slot * options_.ids.ranks + options_.rank;
    rows.ids.push_back(id);
    if (slots_) rows.uses.push_back(slots_->uses(slot));
    const size_t at = rows.weights.size();
    rows.weights.resize(at + values_bytes);
    dispatch_rows(options_.dtype, [&](auto t) {
      using T = decltype(t);
      Codec<T>(*this).load(row, id, values.data());
      cpu::convert_run(values.data(), reinterpret_cast<T*>(rows.weights.data() + at), options_.dim);
    });
    rows.states.insert(rows.states.end(), states_of(row), states_of(row) + row_states);
  }
  return rows;
}

void EmbeddingTable::write(const Rows& rows) {
  const std::lock_guard lock(mutex_);
  const auto dim = static_cast<size_t>(options_.dim);
  const size_t row_states = static_cast<size_t>(options_.states) * dim;
  std::vector<float> values(dim), initialized(dim);
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const int64_t id = rows.ids[i];
    if (!owns(id)) continue;
    MX_CHECK_KIND(slots_ || id < options_.ids.rows, ErrorKind::kIndex, "ShardedEmbedding ",
                  options_.ids.table, ": ids must be from 0 to ", options_.ids.rows - 1, ", got ",
                  id, " in the saved rows");
    int64_t slot = slots_ ? slots_->find(id) : id / options_.ids.ranks;
    if (slot < 0) {
      MX_CHECK_KIND(slots_->size() < memory_->most_rows(), ErrorKind::kOutOfMemory,
                    "ShardedEmbedding ", options_.ids.table, ": ", memory_->most_rows(),
                    " rows fit this rank, but the saved table has more");
      slot = insert(id);
    }
    if (slots_ && i < rows.uses.size()) slots_->use(slot, rows.uses[i]);
    std::byte* const row = memory_->row(slot);
    dispatch_rows(options_.dtype, [&](auto t) {
      using T = decltype(t);
      cpu::convert_run(reinterpret_cast<const T*>(rows.weights.data()) + i * dim, values.data(),
                       options_.dim);
      Codec<T> codec(*this);
      codec.load(row, id, initialized.data());
      codec.store(row, values.data());
    });
    std::copy_n(rows.states.data() + i * row_states, row_states, states_of(row));
  }
}

}  // namespace mxlite::sparse
