#include "cpp/graph/walk.h"

namespace mxlite::graph {

Route::Slot Route::add_values(size_t count) {
  const Slot first = num_values_;
  num_values_ += static_cast<Slot>(count);
  return first;
}

void Route::add_step(std::vector<Slot> inputs, std::vector<Slot> outputs) {
  steps_.push_back({std::move(inputs), std::move(outputs), {}, {}});
}

void Route::finish(std::vector<Slot> results) {
  results_ = std::move(results);
  std::vector<bool> used_later(num_values_);
  for (const Slot slot : results_) used_later[slot] = true;
  for (size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    for (const Slot slot : step.outputs) step.used.push_back(used_later[slot]);
    for (const Slot slot : step.inputs) {
      if (!used_later[slot]) step.last_uses.push_back(slot);
      used_later[slot] = true;
    }
  }
}

ValueSlots::ValueSlots(const Graph& graph, Route& route) {
  for (const Node& node : graph.nodes) first_.push_back(route.add_values(node.outputs.size()));
}

std::vector<Route::Slot> ValueSlots::of(const std::vector<ValueId>& values) const {
  std::vector<Route::Slot> slots;
  for (const ValueId v : values) slots.push_back(of(v));
  return slots;
}

}  // namespace mxlite::graph
