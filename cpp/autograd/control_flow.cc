#include "cpp/autograd/control_flow.h"

#include <algorithm>
#include <numeric>

#include "cpp/autograd/call.h"
#include "cpp/autograd/graph_node.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/tape.h"
#include "cpp/core/host_memory.h"
#include "cpp/graph/host_op.h"
#include "cpp/graph/run/segments.h"
#include "cpp/ndarray/copy.h"

namespace mxlite::autograd {
namespace {

void check_scalar(const char* who, const char* what, const TensorSpec& spec) {
  MX_CHECK_SHAPE(spec.shape.size() == 1, who, ": ", what, " must be an array of one element, got ",
                 spec);
}

NDArrayRef zeros(const TensorSpec& spec, Device device) {
  return call_op("_zeros", {}, {{"shape", spec.shape}, {"dtype", spec.dtype}}, device);
}

// Node of outputs that did not depend on the inputs in this run. Its backward returns zero
// gradients.
class ZeroGradients final : public TapeNode {
 public:
  explicit ZeroGradients(std::span<const NDArrayRef> inputs) {
    for (const NDArrayRef& a : inputs) specs_.push_back(a->spec());
  }
  const char* name() const override { return "while_loop without a step"; }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef>,
                                   std::span<const uint8_t> needs) override {
    std::vector<NDArrayRef> result(needs.size());
    for (size_t i = 0; i < needs.size(); ++i)
      if (needs[i]) result[i] = zeros(specs_[i], device());
    return result;
  }
  void release_saved() override {}

 private:
  std::vector<TensorSpec> specs_;
};

// Returns the called graph of a function whose arguments are the first inputs of the operator and
// whose imports begin at input `first_import`.
graph::HostOpForm::CalledGraph part_of(const TracedFunction& function, size_t arguments,
                                       size_t first_import) {
  std::vector<int> inputs(arguments + function.imports().size());
  const auto imports = inputs.begin() + static_cast<ptrdiff_t>(arguments);
  std::iota(inputs.begin(), imports, 0);
  std::iota(imports, inputs.end(), static_cast<int>(first_import));
  return {function.graph(), std::move(inputs)};
}

class WhileLoop final : public graph::HostOp {
 public:
  WhileLoop(TracedFunctionRef condition, TracedFunctionRef body, size_t variables,
            int64_t max_iterations)
      : condition_(std::move(condition)),
        body_(std::move(body)),
        num_variables_(variables),
        max_iterations_(max_iterations) {}

  Specs infer(std::span<const TensorSpec>) const override {
    Specs specs;
    for (size_t i = 0; i < body_->outputs().size(); ++i) {
      TensorSpec spec = body_->outputs()[i];
      if (i < num_outputs()) spec.shape.insert(0, max_iterations_);
      specs.push_back(spec);
    }
    return specs;
  }

  bool writes(int input) const override {
    const auto i = static_cast<size_t>(input), of_body = num_variables_ + num_condition_imports();
    if (i < num_variables_) return false;
    return i < of_body ? condition_->writes_import(i - num_variables_)
                       : body_->writes_import(i - of_body);
  }

  NDArrays call(std::span<const NDArrayRef> inputs) const override {
    const auto of_condition = inputs.subspan(num_variables_, num_condition_imports());
    const auto of_body = inputs.subspan(num_variables_ + of_condition.size());
    RunningWhile loop;
    loop.condition = [&](const NDArrays& now) { return (*condition_)(now, of_condition)[0]; };
    loop.body = [&](const NDArrays& now) { return (*body_)(now, of_body); };
    loop.output_specs = [&] {
      return Specs(body_->outputs().begin(),
                   body_->outputs().begin() + static_cast<ptrdiff_t>(num_outputs()));
    };
    loop.max_iterations = max_iterations_;
    return run_while(loop, NDArrays(inputs.first(num_variables_)), inputs);
  }

  std::optional<graph::HostOpForm> form() const override {
    graph::HostOpForm form;
    form.max_iterations = max_iterations_;
    form.num_variables = static_cast<int>(num_variables_);
    form.parts = {part_of(*condition_, num_variables_, num_variables_),
                  part_of(*body_, num_variables_, num_variables_ + num_condition_imports())};
    return form;
  }

 private:
  size_t num_condition_imports() const { return condition_->imports().size(); }
  size_t num_outputs() const { return body_->outputs().size() - num_variables_; }

  TracedFunctionRef condition_, body_;
  size_t num_variables_;
  int64_t max_iterations_;
};

NDArrayRef call_along_axis_0(const char* op, const char* axis, std::span<const NDArrayRef> arrays) {
  const OpSchema& schema = ops().get(op);
  const std::pair<std::string_view, AttrValue> attrs[] = {{axis, int64_t{0}}};
  return call(schema, schema.make_params_by_name(attrs), arrays)[0];
}

// Stacks output i of all steps.
NDArrayRef stacked(const std::vector<NDArrays>& steps, size_t i) {
  std::vector<NDArrayRef> values;
  for (const NDArrays& step : steps) values.push_back(step[i]);
  return call_along_axis_0("stack", "axis", values);
}

// Stacks output i of a while loop's steps, padded with zeros to `count` steps.
NDArrayRef stacked_and_padded(const std::vector<NDArrays>& steps, size_t i, int64_t count) {
  TensorSpec rest = steps[0][i]->spec();
  const auto differs = [&](const NDArrays& step) { return step[i]->shape() != rest.shape; };
  if (std::ranges::any_of(steps, differs)) {
    std::string shapes;
    for (size_t k = 0; k < steps.size(); ++k)
      shapes += str("\n  Step ", k, ", shape is ", steps[k][i]->shape());
    fail(ErrorKind::kShape, "Shapes of ", i + 1,
         "-th elements in step_outputs are inconsistent, which are:", shapes);
  }
  const NDArrayRef done = stacked(steps, i);
  rest.shape.insert(0, count - static_cast<int64_t>(steps.size()));
  if (rest.shape[0] == 0) return done;
  const NDArrayRef both[] = {done, zeros(rest, done->device())};
  return call_along_axis_0("Concat", "dim", both);
}

// Returns the slices of an array along its first axis. The slices of a vector have one element
// each.
std::vector<NDArrayRef> slices_of(const NDArrayRef& array) {
  const int64_t count = array->shape()[0];
  const bool is_vector = array->shape().ndim() == 1;
  if (graph::Trace::current() || mode.recording) {
    // Uses a single operator, because the gradient of each `slice` call would be as large as the
    // array.
    const OpSchema& split = ops().get("SliceChannel");
    const std::pair<std::string_view, AttrValue> attrs[] = {
        {"num_outputs", count}, {"axis", int64_t{0}}, {"squeeze_axis", !is_vector}};
    const NDArrays slices = call(split, split.make_params_by_name(attrs), {&array, 1});
    return {slices.begin(), slices.end()};
  }
  Shape shape = array->shape();
  Strides strides = array->strides();
  const int64_t step = strides[0];
  if (is_vector) {
    shape[0] = 1;
  } else {
    shape.erase(0);
    strides.erase(0);
  }
  std::vector<NDArrayRef> views;
  for (int64_t i = 0; i < count; ++i)
    views.push_back(array->strided(shape, strides, array->offset() + i * step));
  return views;
}

class Branch final : public graph::HostOp {
 public:
  Branch(TracedFunctionRef then, TracedFunctionRef otherwise)
      : then_(std::move(then)), otherwise_(std::move(otherwise)) {}

  Specs infer(std::span<const TensorSpec>) const override {
    return Specs(then_->outputs().begin(), then_->outputs().end());
  }
  bool writes(int input) const override {
    const auto i = static_cast<size_t>(input), of_then = then_->imports().size();
    if (i == 0) return false;
    return i <= of_then ? then_->writes_import(i - 1) : otherwise_->writes_import(i - 1 - of_then);
  }
  NDArrays call(std::span<const NDArrayRef> inputs) const override {
    const size_t of_then = then_->imports().size();
    if (is_true(inputs[0])) return (*then_)({}, inputs.subspan(1, of_then));
    return (*otherwise_)({}, inputs.subspan(1 + of_then));
  }
  std::optional<graph::HostOpForm> form() const override {
    graph::HostOpForm form;
    form.parts = {part_of(*then_, 0, 1), part_of(*otherwise_, 0, 1 + then_->imports().size())};
    return form;
  }

 private:
  TracedFunctionRef then_, otherwise_;
};

void append(std::vector<NDArrayRef>& list, std::span<const NDArrayRef> more) {
  list.insert(list.end(), more.begin(), more.end());
}

}  // namespace

bool is_true(const NDArrayRef& given) {
  MX_CHECK(given->size() == 1, "a condition must have exactly one element, got shape ",
           given->shape());
  const NDArrayRef array = is_host_memory(given->device()) ? given : copy_to_device(given, {});
  array->wait_to_read();
  double value = 0;
  const Strides strides = contiguous_strides(array->shape());
  copy_strided(array->shape(), {array->data(), array->dtype(), array->strides()},
               {&value, DType::kFloat64, strides});
  return value != 0;
}

NDArrays run_while(const RunningWhile& loop, NDArrays variables,
                   std::span<const NDArrayRef> inputs) {
  const auto holds = [&] {
    const ModeScope quiet({false, mode.training});
    return is_true(loop.condition(variables));
  };
  std::vector<NDArrays> steps;
  while (static_cast<int64_t>(steps.size()) < loop.max_iterations && holds()) {
    NDArrays outputs = loop.body(variables);
    const size_t count = outputs.size() - variables.size();
    for (size_t i = 0; i < variables.size(); ++i) variables[i] = outputs[count + i];
    outputs.resize(count);
    steps.push_back(std::move(outputs));
  }
  NDArrays results;
  if (steps.empty()) {
    for (TensorSpec spec : loop.output_specs()) {
      spec.shape.insert(0, loop.max_iterations);
      results.push_back(zeros(spec, variables[0]->device()));
    }
    if (mode.recording && needs_record(inputs))
      make_ref<ZeroGradients>(inputs)->connect(inputs, results);
    for (const NDArrayRef& variable : variables) results.push_back(call_op("_copy", {variable}));
    return results;
  }
  for (size_t i = 0; i < steps[0].size(); ++i)
    results.push_back(stacked_and_padded(steps, i, loop.max_iterations));
  for (const NDArrayRef& variable : variables) results.push_back(variable);
  return results;
}

NDArrays run_foreach(const ForeachBody& body, std::span<const NDArrayRef> data, NDArrays states) {
  std::string shapes;
  bool fits = !data.empty();
  for (const NDArrayRef& array : data) {
    const Shape& shape = array->shape();
    fits = fits && shape.ndim() > 0 && shape[0] > 0 && shape[0] == data[0]->shape()[0];
    shapes += str(shapes.empty() ? "" : ", ", shape);
  }
  MX_CHECK_SHAPE(fits, "foreach: data must have one size of axis 0, which is at least 1, got ",
                 shapes.empty() ? "no data" : "shapes " + shapes);
  std::vector<std::vector<NDArrayRef>> columns;
  for (const NDArrayRef& array : data) columns.push_back(slices_of(array));
  std::vector<NDArrays> steps(columns[0].size());
  for (size_t k = 0; k < steps.size(); ++k) {
    NDArrays slices;
    for (const auto& column : columns) slices.push_back(column[k]);
    steps[k] = body(slices, states);
    const size_t count = steps[k].size() - states.size();
    for (size_t i = 0; i < states.size(); ++i) states[i] = steps[k][count + i];
    steps[k].resize(count);
  }
  NDArrays results;
  for (size_t i = 0; i < steps[0].size(); ++i) results.push_back(stacked(steps, i));
  for (const NDArrayRef& state : states) results.push_back(state);
  return results;
}

TracedFunction::TracedFunction(const std::string& name, const Function& function,
                               std::span<const NDArrayRef> arguments) {
  MX_CHECK_KIND(graph::Trace::current(), ErrorKind::kError, name,
                ": must be called while a hybridized forward is traced");
  graph::Graph body;
  {
    graph::Trace trace(name, graph::Trace::PartOfCurrent{});
    std::vector<NDArrayRef> traced;
    for (const NDArrayRef& a : arguments) traced.push_back(trace.add_input(a->spec()));
    body = trace.finish(function(traced));
    imports_ = trace.imported_inputs();
    imported_inputs_ = imports_.size();
    append(imports_, trace.imported_parameters());
  }
  written_.resize(imports_.size());
  for (size_t i = imported_inputs_; i < imports_.size(); ++i)
    written_[i] = is_written(body, body.parameters[i - imported_inputs_]);
  for (graph::ValueId v : body.outputs) outputs_.push_back(body.spec(v));
  body_ = std::make_shared<const graph::Graph>(std::move(body));
  graph_ = graph::cached_graph_of(body_, /*is_part=*/true);
}

NDArrays TracedFunction::operator()(std::span<const NDArrayRef> arguments,
                                    std::span<const NDArrayRef> imports) const {
  std::vector<NDArrayRef> inputs(arguments.begin(), arguments.end());
  append(inputs, imports.first(imported_inputs_));
  const auto parameters = imports.subspan(imported_inputs_);
  graph_->set_params(graph::ArrayList(parameters.begin(), parameters.end()));
  return call(*graph_, inputs);
}

NDArrays while_loop(TracedFunctionRef condition, TracedFunctionRef body,
                    std::span<const NDArrayRef> variables, int64_t max_iterations) {
  MX_CHECK(max_iterations >= 0, "while_loop: max_iterations must be at least 0, got ",
           max_iterations);
  MX_CHECK_SHAPE(condition->outputs().size() == 1, "while_loop: cond must return one array, got ",
                 condition->outputs().size());
  check_scalar("while_loop", "the result of cond", condition->outputs()[0]);
  const std::vector<TensorSpec>& results = body->outputs();
  MX_ASSERT(results.size() >= variables.size());
  for (size_t i = 0; i < variables.size(); ++i) {
    const TensorSpec& next = results[results.size() - variables.size() + i];
    MX_CHECK_SHAPE(next == variables[i]->spec(), "while_loop: loop variable ", i,
                   " must keep its dtype and shape, ", variables[i]->spec(),
                   ", in a hybridized forward, got ", next, " after a step");
  }
  std::vector<NDArrayRef> inputs(variables.begin(), variables.end());
  append(inputs, condition->imports());
  append(inputs, body->imports());
  return graph::call_host_op("_while_loop",
                             make_ref<const WhileLoop>(std::move(condition), std::move(body),
                                                       variables.size(), max_iterations),
                             inputs);
}

NDArrays branch(const NDArrayRef& predicate, TracedFunctionRef then, TracedFunctionRef otherwise) {
  check_scalar("cond", "pred", predicate->spec());
  MX_CHECK_SHAPE(then->outputs().size() == otherwise->outputs().size(),
                 "cond: then_func and else_func must return the same number of arrays, got ",
                 then->outputs().size(), " and ", otherwise->outputs().size());
  for (size_t i = 0; i < then->outputs().size(); ++i)
    MX_CHECK_SHAPE(then->outputs()[i] == otherwise->outputs()[i], "cond: output ", i,
                   " must have one dtype and shape in a hybridized forward, got ",
                   then->outputs()[i], " from then_func and ", otherwise->outputs()[i],
                   " from else_func");
  std::vector<NDArrayRef> inputs{predicate};
  append(inputs, then->imports());
  append(inputs, otherwise->imports());
  return graph::call_host_op("_cond", make_ref<const Branch>(std::move(then), std::move(otherwise)),
                             inputs);
}

}  // namespace mxlite::autograd
