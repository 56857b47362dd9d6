#include "cpp/symbol/control_flow.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cpp/ops/dimensions.h"

namespace mxlite::symbol {
namespace {

// Returns specs in Python syntax, such as ((2, 3), 'float32') or (None, 'float32').
std::string shown(const Specs& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) {
    const std::string shape = spec.shape.ndim() < 0 ? "None" : str(spec.shape);
    text += str(text.empty() ? "" : ", ", "(", shape, ", '", dtype_name(spec.dtype), "')");
  }
  return str("[", text, "]");
}

// The functions below also accept shapes with an unknown number of dimensions.
bool may_agree(const Shape& a, const Shape& b) {
  return a.ndim() < 0 || b.ndim() < 0 || may_equal(a, b);
}
Shape known_of_both(const Shape& a, const Shape& b) {
  if (a.ndim() < 0 || b.ndim() < 0) return a.ndim() < 0 ? b : a;
  return merged(a, b);
}

// Inserts a first axis into those shapes of the specs that are known.
void stack_specs(std::span<TensorSpec> specs, int64_t extent) {
  for (TensorSpec& spec : specs)
    if (spec.shape.ndim() >= 0) spec.shape.insert(0, extent);
}

}  // namespace

// -- common to all operators ---------------------------------------------------------------------

ControlFlow::ControlFlow(std::vector<Subgraph> graphs, size_t num_inputs, size_t num_outputs)
    : graphs_(std::move(graphs)),
      num_inputs_(static_cast<int>(num_inputs)),
      num_outputs_(static_cast<int>(num_outputs)) {
  for (const Subgraph& graph : graphs_) {
    MX_ASSERT(graph.inputs.size() == graph.variables.size());
    for (const int input : graph.inputs) MX_ASSERT(input >= 0 && input < num_inputs_);
  }
}

std::vector<int> ControlFlow::written(int) const {
  std::set<int> all;
  for (const Subgraph& graph : graphs_)
    for (const int input : graph.written()) all.insert(input);
  return {all.begin(), all.end()};
}

bool ControlFlow::writes(int input) const {
  const std::vector<int> all = written(num_inputs_);
  return std::find(all.begin(), all.end(), input) != all.end();
}

bool ControlFlow::fill_types(KnownTypes in, KnownTypes out) const {
  if (std::any_of(in.begin(), in.end(), [](const KnownType& type) { return !type; })) return false;
  const Subgraph& last = graphs_.back();
  std::vector<DType> known;
  for (const int input : last.inputs) known.push_back(*in[static_cast<size_t>(input)]);
  const std::vector<DType> found = infer_types(last, known);
  for (size_t i = 0; i < out.size() && i < found.size(); ++i)
    if (!out[i]) out[i] = found[i];
  return true;
}

SubgraphSpecs ControlFlow::infer_subgraph(const Subgraph& graph,
                                          std::span<const TensorSpec> inputs) const {
  Specs known;
  for (const int input : graph.inputs)
    known.push_back(inner(input, inputs[static_cast<size_t>(input)]));
  return symbol::infer(graph, known);
}

Specs ControlFlow::infer_outputs_of(const Subgraph& graph,
                                    std::span<const TensorSpec> inputs) const {
  return infer_subgraph(graph, inputs).outputs;
}

void ControlFlow::complete(std::span<TensorSpec> inputs) const {
  for (const Subgraph& graph : graphs_) {
    const Specs found = infer_subgraph(graph, inputs).variables;
    for (size_t i = 0; i < found.size(); ++i) {
      const int input = graph.inputs[i];
      Shape& shape = inputs[static_cast<size_t>(input)].shape;
      if (!shape.is_known() && found[i].shape.ndim() >= 0)
        shape = outer(input, found[i].shape, shape);
    }
  }
}

const ControlFlow* control_flow(const Call& call) {
  return dynamic_cast<const ControlFlow*>(call.host());
}

ControlFlowCall call_of(const char* op, IntrusivePtr<const ControlFlow> flow, NodeOutputs inputs) {
  Call call;
  call.op = &graph::host_schema(op);
  call.params = graph::host_params(std::move(flow));
  call.file_op = op;
  return {std::move(call), std::move(inputs)};
}

// -- _foreach ------------------------------------------------------------------------------------

Foreach::Foreach(Subgraph body, size_t num_data, size_t num_states)
    : ControlFlow({body}, body.variables.size(), body.heads.size()),
      num_data_(num_data),
      num_states_(num_states) {
  MX_ASSERT(num_data > 0 && output_count() >= num_states);
}

TensorSpec Foreach::inner(int input, const TensorSpec& spec) const {
  if (static_cast<size_t>(input) >= num_data_ || spec.shape.ndim() < 0) return spec;
  TensorSpec slice = spec;
  if (spec.shape.ndim() > 1)
    slice.shape.erase(0);
  else
    slice.shape = {1};
  return slice;
}

Shape Foreach::outer(int input, const Shape& shape, const Shape& given) const {
  if (static_cast<size_t>(input) >= num_data_) return shape;
  if (given.ndim() == 1) return given;  // slices of a vector have one element
  Shape whole = shape;
  whole.insert(0, given.ndim() > 0 ? given[0] : -1);
  return whole;
}

Specs Foreach::infer(std::span<const TensorSpec> inputs) const {
  const Shape& data = inputs[0].shape;
  MX_CHECK_SHAPE(data.ndim() > 0, "foreach: data must have an axis 0, got shape ", data);
  Specs found = infer_outputs_of(body(), inputs);
  stack_specs({found.data(), output_count() - num_states_}, data[0]);
  return found;
}

ControlFlowCall make_foreach(CutSubgraph body, const NodeOutputs& data, const NodeOutputs& states) {
  MX_ASSERT(body.num_arguments == data.size() + states.size());
  NodeOutputs inputs = data;
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.insert(inputs.end(), body.imports.begin(), body.imports.end());
  std::vector<int> positions(inputs.size());
  std::iota(positions.begin(), positions.end(), 0);
  Subgraph graph{std::move(body.heads), std::move(body.variables), std::move(positions)};
  return call_of("_foreach", make_ref<const Foreach>(std::move(graph), data.size(), states.size()),
                 std::move(inputs));
}

// -- _while_loop ---------------------------------------------------------------------------------

WhileLoop::WhileLoop(Subgraph condition, Subgraph body, size_t num_inputs, size_t num_variables,
                     int64_t max_iterations)
    : ControlFlow({std::move(condition), body}, num_inputs, body.heads.size()),
      num_variables_(num_variables),
      max_iterations_(max_iterations) {
  MX_ASSERT(num_variables > 0 && output_count() >= num_variables);
  for (const Subgraph& graph : graphs()) MX_ASSERT(graph.variables.size() >= num_variables);
  MX_ASSERT(this->condition().heads.size() == 1);
}

Specs WhileLoop::infer(std::span<const TensorSpec> inputs) const {
  infer_outputs_of(condition(), inputs);  // throws if shapes do not fit
  Specs found = infer_outputs_of(body(), inputs);
  stack_specs({found.data(), num_step_outputs()}, max_iterations_);
  return found;
}

ControlFlowCall make_while_loop(CutSubgraph condition, CutSubgraph body,
                                const NodeOutputs& variables, int64_t max_iterations) {
  NodeInputs inputs;
  Subgraph first = inputs.give(std::move(condition), variables);
  Subgraph second = inputs.give(std::move(body), variables);
  const size_t count = inputs.size();
  return call_of("_while_loop",
                 make_ref<const WhileLoop>(std::move(first), std::move(second), count,
                                           variables.size(), max_iterations),
                 inputs.take());
}

// -- _cond ---------------------------------------------------------------------------------------

Branch::Branch(Subgraph then, Subgraph otherwise, size_t num_inputs)
    : ControlFlow({then, std::move(otherwise)}, num_inputs, then.heads.size()) {}

Specs Branch::infer(std::span<const TensorSpec> inputs) const {
  Specs one = infer_outputs_of(then(), inputs);
  const Specs other = infer_outputs_of(otherwise(), inputs);
  bool fits = one.size() == other.size();
  for (size_t i = 0; fits && i < one.size(); ++i)
    fits = one[i].dtype == other[i].dtype && may_agree(one[i].shape, other[i].shape);
  MX_CHECK_SHAPE(fits, "cond: then_func and else_func must return equal shapes and dtypes, got ",
                 shown(one), " and ", shown(other));
  for (size_t i = 0; i < one.size(); ++i)
    one[i].shape = known_of_both(one[i].shape, other[i].shape);
  return one;
}

ControlFlowCall make_cond(const NodeOutput& predicate, CutSubgraph then, CutSubgraph otherwise) {
  NodeInputs inputs;
  inputs.variable(0, predicate);
  Subgraph first = inputs.give(std::move(then), {});
  Subgraph second = inputs.give(std::move(otherwise), {});
  const size_t count = inputs.size();
  return call_of("_cond", make_ref<const Branch>(std::move(first), std::move(second), count),
                 inputs.take());
}

}  // namespace mxlite::symbol
