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
    RouteStep& step = steps_[i];
    for (const Slot slot : step.outputs) step.used.push_back(used_later[slot]);
    for (const Slot slot : step.inputs) {
      if (!used_later[slot]) step.last_uses.push_back(slot);
      used_later[slot] = true;
    }
  }
}

ValueSlots::ValueSlots(const Graph& graph) {
  first_.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    first_.push_back(size_);
    size_ += static_cast<Route::Slot>(node.outputs.size());
  }
}

std::vector<Route::Slot> ValueSlots::of(const std::vector<ValueId>& values) const {
  std::vector<Route::Slot> slots;
  for (const ValueId v : values) slots.push_back(of(v));
  return slots;
}

GraphRoute::GraphRoute(const Graph& graph) : slots(graph) {
  route.add_values(slots.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind != NodeKind::kOp) continue;
    const auto id = static_cast<int32_t>(i);
    std::vector<Route::Slot> outputs;
    for (size_t k = 0; k < node.outputs.size(); ++k)
      outputs.push_back(slots.of({id, static_cast<int32_t>(k)}));
    route.add_step(slots.of(node.inputs), std::move(outputs));
    nodes.push_back(id);
  }
  route.finish(slots.of(graph.outputs));
}

}  // namespace mxlite::graph
