// Runs _foreach, _while_loop and _cond on arrays. Inside a trace, _foreach is unrolled. The control
// flow of _while_loop and _cond depends on data, so their subgraphs are traced into separate
// graphs.
#include "cpp/autograd/control_flow.h"
#include "cpp/graph/trace.h"
#include "cpp/symbol/control_flow.h"
#include "cpp/symbol/run.h"

namespace mxlite::symbol {
namespace {

using autograd::TracedFunction;
using autograd::TracedFunctionRef;

// A subgraph as a function of its first variables. The arrays of its imports are fixed.
class Function {
 public:
  Function(const Subgraph& graph, std::span<const NDArrayRef> inputs, size_t num_arguments)
      : run_(graph) {
    for (size_t i = num_arguments; i < graph.inputs.size(); ++i)
      imports_.push_back(inputs[static_cast<size_t>(graph.inputs[i])]);
  }

  Arrays operator()(std::span<const NDArrayRef> arguments) const {
    Arrays arrays(arguments.begin(), arguments.end());
    arrays.insert(arrays.end(), imports_.begin(), imports_.end());
    return run_(arrays);
  }
  NDArrays operator()(const NDArrays& arguments) const {
    const Arrays made = (*this)(std::span(arguments.data(), arguments.size()));
    return NDArrays(made.begin(), made.end());
  }

  TracedFunctionRef traced(const char* name, std::span<const NDArrayRef> arguments) const {
    const auto call = [this](const Arrays& arrays) { return (*this)(std::span(arrays)); };
    return make_ref<const TracedFunction>(name, call, arguments);
  }

 private:
  const SubgraphRun run_;
  Arrays imports_;
};

}  // namespace

NDArrays Foreach::call(std::span<const NDArrayRef> inputs) const {
  const Function function(body(), inputs, num_data_ + num_states_);
  const auto step = [&](const NDArrays& slices, const NDArrays& states) {
    NDArrays arguments = slices;
    for (const NDArrayRef& state : states) arguments.push_back(state);
    return function(arguments);
  };
  return autograd::run_foreach(step, inputs.first(num_data_),
                               NDArrays(inputs.subspan(num_data_, num_states_)));
}

NDArrays WhileLoop::call(std::span<const NDArrayRef> inputs) const {
  const Function holds(condition(), inputs, num_variables_), step(body(), inputs, num_variables_);
  NDArrays variables;
  for (size_t i = 0; i < num_variables_; ++i)
    variables.push_back(inputs[static_cast<size_t>(body().inputs[i])]);
  if (graph::Trace::current())
    return autograd::while_loop(holds.traced("while_loop: cond", variables),
                                step.traced("while_loop: func", variables), variables,
                                max_iterations_);
  autograd::RunningWhile loop;
  loop.condition = [&](const NDArrays& now) { return holds(now)[0]; };
  loop.body = [&](const NDArrays& now) { return step(now); };
  loop.output_specs = [&] {
    Specs specs;
    for (const NDArrayRef& input : inputs) specs.push_back(input->spec());
    Specs found = infer_outputs_of(body(), specs);
    found.resize(num_step_outputs());
    return found;
  };
  loop.max_iterations = max_iterations_;
  return autograd::run_while(loop, std::move(variables), inputs);
}

NDArrays Branch::call(std::span<const NDArrayRef> inputs) const {
  const Function first(then(), inputs, 0), second(otherwise(), inputs, 0);
  if (graph::Trace::current())
    return autograd::branch(inputs[0], first.traced("cond: then_func", {}),
                            second.traced("cond: else_func", {}));
  return (autograd::is_true(inputs[0]) ? first : second)(NDArrays());
}

}  // namespace mxlite::symbol
