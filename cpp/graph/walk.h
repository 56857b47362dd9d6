// Visits a graph's nodes in order. Passes each node its inputs, and keeps its outputs until their
// last use. The tape uses this to run calls again. Graphs that are cut into segments also use it,
// and so do symbols that run node by node (because of hooks, monitors, sparse arrays or several
// devices). Compiled programs use Steps instead.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cpp/graph/graph.h"

namespace mxlite::graph {

// Steps in the order in which they run. A slot holds one value. The value exists at the start or is
// computed by a step.
class Route {
 public:
  using Slot = uint32_t;
  struct RouteStep {
    std::vector<Slot> inputs, outputs;
    std::vector<Slot> last_uses;  // inputs that no later step needs
    std::vector<bool> used;       // for each output: whether a later step or a result needs it
  };
  Slot add_values(size_t count = 1);  // returns the first slot
  void add_step(std::vector<Slot> inputs, std::vector<Slot> outputs);
  // Ends the route; `walk` returns the values in these slots.
  void finish(std::vector<Slot> results);

  size_t num_values() const { return num_values_; }
  const std::vector<RouteStep>& steps() const { return steps_; }
  const std::vector<Slot>& results() const { return results_; }

 private:
  Slot num_values_ = 0;
  std::vector<RouteStep> steps_;
  std::vector<Slot> results_;
};

// Called by `walk` at each step.
template <class Value>
class Visitor {
 public:
  using Values = std::vector<Value>;
  virtual ~Visitor() = default;
  virtual void before(size_t /*step*/, Values& /*inputs*/) {}  // called before each step; may
                                                               // replace the inputs
  virtual Values run(size_t step, const Values& inputs) = 0;
  virtual void after(size_t /*step*/, const Values& /*inputs*/, const Values& /*outputs*/) {}
  virtual std::string place(size_t /*step*/) const { return {}; }  // name of the step in errors
};

// `values` (by slot) must contain the values that exist at the start.
template <class Value>
std::vector<Value> walk(const Route& route, std::vector<Value> values, Visitor<Value>& visitor) {
  MX_ASSERT(values.size() == route.num_values());
  for (size_t i = 0; i < route.steps().size(); ++i) {
    const Route::RouteStep& step = route.steps()[i];
    std::vector<Value> inputs;
    for (const Route::Slot slot : step.inputs) inputs.push_back(values[slot]);
    for (const Route::Slot slot : step.last_uses) values[slot] = Value();
    std::vector<Value> outputs;
    try {
      visitor.before(i, inputs);
      outputs = visitor.run(i, inputs);
      visitor.after(i, inputs, outputs);
    } catch (Error& error) {
      if (const std::string place = visitor.place(i); !place.empty()) error.add_context(place);
      throw;
    }
    MX_ASSERT(outputs.size() >= step.outputs.size());
    for (size_t k = 0; k < step.outputs.size(); ++k)
      if (step.used[k]) values[step.outputs[k]] = std::move(outputs[k]);
  }
  std::vector<Value> results;
  for (const Route::Slot slot : route.results()) results.push_back(values[slot]);
  return results;
}

// Assigns a slot to each value of a graph. The values of inputs, parameters and constants exist at
// the start.
class ValueSlots {
 public:
  explicit ValueSlots(const Graph& graph);
  size_t size() const { return size_; }
  Route::Slot of(ValueId v) const {
    return first_[static_cast<size_t>(v.node)] + static_cast<Route::Slot>(v.output);
  }
  std::vector<Route::Slot> of(const std::vector<ValueId>& values) const;

 private:
  std::vector<Route::Slot> first_;  // indexed by node
  Route::Slot size_ = 0;
};

// The route through all operators of a graph.
struct GraphRoute {
  explicit GraphRoute(const Graph& graph);
  ValueSlots slots;
  Route route;
  std::vector<int32_t> nodes;  // indexed by step
};

}  // namespace mxlite::graph
