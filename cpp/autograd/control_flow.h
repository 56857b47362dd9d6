// Loops and branches on arrays. The calling thread runs them step by step and waits for each
// condition. Inside a hybridized forward, the functions of a loop or branch are traced once as
// graphs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpp/graph/cached_graph.h"

namespace mxlite::autograd {

// A function inside a forward that was traced as a part of the current trace.
class TracedFunction : public RefCounted {
 public:
  using Function = std::function<std::vector<NDArrayRef>(const std::vector<NDArrayRef>& arguments)>;
  TracedFunction(const std::string& name, const Function& function,
                 std::span<const NDArrayRef> arguments);

  // Values of the surrounding forward that the function uses besides its arguments.
  const std::vector<NDArrayRef>& imports() const { return imports_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  // Returns whether the function writes to this import in place.
  bool writes_import(size_t i) const { return written_[i] != 0; }
  const std::shared_ptr<const graph::Graph>& graph() const { return body_; }
  // `arrays` are the arguments, followed by the values of the imports.
  NDArrays operator()(std::span<const NDArrayRef> arguments,
                      std::span<const NDArrayRef> imports) const;

 private:
  std::shared_ptr<const graph::Graph> body_;
  IntrusivePtr<graph::CachedGraph> graph_;
  std::vector<NDArrayRef> imports_;
  size_t imported_inputs_ = 0;    // number of imports that are inputs; these precede imported
                                  // parameters
  std::vector<uint8_t> written_;  // indexed by import
  std::vector<TensorSpec> outputs_;
};
using TracedFunctionRef = IntrusivePtr<const TracedFunction>;

// Returns whether an array of one element is not zero. Waits for the value.
bool is_true(const NDArrayRef& array);

// A loop on arrays that have data. The loop runs while `condition` is not zero.
struct RunningWhile {
  std::function<NDArrayRef(const NDArrays& variables)> condition;
  std::function<NDArrays(const NDArrays& variables)> body;  // returns the outputs of a step, then
                                                            // the new variables
  std::function<Specs()> output_specs;  // returns the specs of one step's outputs; called only if
                                        // the loop makes no step
  int64_t max_iterations = 0;
};
// Returns the outputs, stacked and padded with zeros to max_iterations, followed by the variables
// after the last step. `inputs` are all arrays that the functions use.
NDArrays run_while(const RunningWhile& loop, NDArrays variables,
                   std::span<const NDArrayRef> inputs);

// Calls body(slices, states) on each slice of `data` along axis 0. The body returns outputs and the
// new states. Returns the stacked outputs, followed by the states. In a trace, unrolls the loop.
using ForeachBody = std::function<NDArrays(const NDArrays& slices, const NDArrays& states)>;
NDArrays run_foreach(const ForeachBody& body, std::span<const NDArrayRef> data, NDArrays states);

// Calls body while condition(variables) is not zero, at most max_iterations times. The body returns
// the outputs of a step, followed by the variables' new values. Returns the outputs, stacked and
// padded with zeros to max_iterations, followed by the variables. Call only inside a trace.
NDArrays while_loop(TracedFunctionRef condition, TracedFunctionRef body,
                    std::span<const NDArrayRef> variables, int64_t max_iterations);

// Calls one of two functions without arguments. Call only inside a trace.
NDArrays branch(const NDArrayRef& predicate, TracedFunctionRef then, TracedFunctionRef otherwise);

}  // namespace mxlite::autograd
