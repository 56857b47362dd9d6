// Control flow inside hybridized forwards. Python (mxlite/ndarray/control_flow.py) runs eager loops
// itself.
#include <pybind11/stl.h>

#include "cpp/autograd/checkpoint.h"
#include "cpp/autograd/control_flow.h"
#include "cpp/graph/trace.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

// The Python object of a traced function shares the function's reference count.
PYBIND11_DECLARE_HOLDER_TYPE(T, mxlite::IntrusivePtr<T>, true)

namespace mxlite::python {
namespace {

using autograd::TracedFunction;
using FunctionRef = IntrusivePtr<TracedFunction>;

// A reference to a Python function. The last owner may release it on any thread.
class HeldFunction final : public RefCounted {
 public:
  explicit HeldFunction(py::object function) : function_(std::move(function)) {}
  ~HeldFunction() override {
    if (!may_take_gil()) {
      function_.release();
      return;
    }
    const GilAcquire gil;
    function_ = py::object();
  }
  NDArrays operator()(std::span<const NDArrayRef> arrays) const {
    const GilAcquire gil;
    const auto results = py::cast<std::vector<NDArrayRef>>(
        function_(std::vector<NDArrayRef>(arrays.begin(), arrays.end())));
    return NDArrays(results.begin(), results.end());
  }

 private:
  py::object function_;
};

std::vector<NDArrayRef> to_vector(const NDArrays& arrays) {
  return std::vector<NDArrayRef>(arrays.begin(), arrays.end());
}

}  // namespace

void bind_control_flow(py::module_& m) {
  py::class_<TracedFunction, FunctionRef>(m, "TracedFunction",
                                          "A function traced inside another forward.")
      .def(py::init([](const std::string& name, const py::function& function,
                       const std::vector<NDArrayRef>& arguments) {
             const auto call = [&](const std::vector<NDArrayRef>& traced) {
               return py::cast<std::vector<NDArrayRef>>(function(traced));
             };
             return make_ref<TracedFunction>(name, call, arguments);
           }),
           py::arg("name"), py::arg("function"), py::arg("arguments"),
           "Traces function(list of arrays) -> list of arrays as part of the running trace.");
  m.def(
      "checkpoint",
      [](const std::string& name, py::object function, std::vector<NDArrayRef> inputs,
         std::vector<NDArrayRef> watched, std::vector<NDArrayRef> states) {
        autograd::CheckpointedCall call;
        call.name = name;
        call.body = [held = make_ref<HeldFunction>(std::move(function))](
                        std::span<const NDArrayRef> arrays) { return (*held)(arrays); };
        call.inputs = std::move(inputs);
        call.watched = std::move(watched);
        call.states = std::move(states);
        return to_vector(autograd::checkpoint(std::move(call)));
      },
      py::arg("name"), py::arg("function"), py::arg("inputs"), py::arg("watched"),
      py::arg("states"),
      "Return function(list of arrays) -> list of arrays; when recorded it keeps its inputs only "
      "and is called again in backward. It may write states, and must not write watched arrays.");
  m.def(
      "traced_checkpoint",
      [](const std::string& name, const FunctionRef& function) {
        return to_vector(autograd::traced_checkpoint(name, function));
      },
      py::arg("name"), py::arg("function"),
      "Node for a function without arguments that is run again in backward.");
  m.def(
      "is_tracing", [] { return graph::Trace::current() != nullptr; },
      "Whether this thread traces a hybridized forward.");
  m.def(
      "while_loop",
      [](const FunctionRef& condition, const FunctionRef& body,
         const std::vector<NDArrayRef>& variables, int64_t max_iterations) {
        return to_vector(autograd::while_loop(condition, body, variables, max_iterations));
      },
      py::arg("condition"), py::arg("body"), py::arg("variables"), py::arg("max_iterations"),
      "Node for a loop: stacked outputs of the steps, then the variables after the last one.");
  m.def(
      "branch",
      [](const NDArrayRef& predicate, const FunctionRef& then, const FunctionRef& otherwise) {
        return to_vector(autograd::branch(predicate, then, otherwise));
      },
      py::arg("predicate"), py::arg("then"), py::arg("otherwise"),
      "Node for one of two functions.");
}

}  // namespace mxlite::python
