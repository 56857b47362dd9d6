#include "cpp/symbol/steps.h"

#include <algorithm>
#include <unordered_map>

#include "cpp/symbol/inference.h"
#include "cpp/symbol/names.h"

namespace mxlite::symbol {

using graph::Route;

Steps steps_of(const Entries& heads) {
  const std::vector<NodeRef> order = topological_order(heads);
  std::unordered_map<const Node*, size_t> counts;  // numbers of outputs that are used
  const auto use = [&](const Entry& entry) {
    size_t& count = counts[entry.node.get()];
    count = std::max(count, static_cast<size_t>(entry.output) + 1);
  };
  for (const Entry& head : heads) use(head);
  for (const NodeRef& node : order)
    for (const Entry& entry : node->inputs) use(entry);
  std::unordered_map<const Node*, Route::Slot> first;
  const auto slot = [&](const Entry& entry) {
    return first.at(entry.node.get()) + static_cast<Route::Slot>(entry.output);
  };
  Steps steps;
  for (const NodeRef& node : order) {
    const size_t count = counts.at(node.get());
    const Route::Slot at = first[node.get()] = steps.route.add_values(count);
    if (node->is_variable()) {
      steps.variables.emplace_back(at, node);
      continue;
    }
    std::vector<Route::Slot> inputs, outputs;
    for (const Entry& entry : node->inputs) inputs.push_back(slot(entry));
    for (size_t k = 0; k < count; ++k) outputs.push_back(at + static_cast<Route::Slot>(k));
    steps.route.add_step(std::move(inputs), std::move(outputs));
    steps.nodes.push_back(node);
  }
  std::vector<Route::Slot> results;
  for (const Entry& head : heads) results.push_back(slot(head));
  steps.route.finish(std::move(results));
  return steps;
}

NamedAfter::NamedAfter(const Node& node) : trace_(graph::Trace::current()) {
  if (trace_) outer_ = trace_->set_scope({node.label(), /*whole=*/true});
}

NamedAfter::~NamedAfter() {
  if (trace_) trace_->set_scope(std::move(outer_));
}

void check_traced_shape(const Node& variable, const Shape& given) {
  const auto found = variable.attrs.find(kTracedShape);
  if (found == variable.attrs.end()) return;
  const Shape expected = parse_shape(found->second, UnknownExtent::kZero, variable.name);
  bool fits = expected.ndim() < 0 || given.ndim() == expected.ndim();
  for (int i = 0; fits && i < expected.ndim(); ++i)
    fits = expected[i] == -1 || expected[i] == given[i];
  MX_CHECK_SHAPE(
      fits, "input ", variable.name, " has shape ", given, ", the network was traced for ",
      found->second,
      " because its forward looks at shapes; run it with inputs of that shape and export "
      "it again");
}

}  // namespace mxlite::symbol
