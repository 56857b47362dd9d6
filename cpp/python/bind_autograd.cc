// Bindings of mx.autograd: modes, variables, backward, custom functions.
#include <pybind11/stl.h>

#include <vector>

#include "cpp/autograd/anomaly.h"
#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/overwritten.h"
#include "cpp/autograd/tape.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

using autograd::mode;

// Converts a list of gradients. None in place of the list gives an empty vector.
std::vector<NDArrayRef> grads_of(const py::object& grads) {
  std::vector<NDArrayRef> result;
  if (grads.is_none()) return result;
  for (const py::handle g : grads)
    result.push_back(g.is_none() ? nullptr : any_array_of(g, "gradient"));
  return result;
}

// The tape node of a user's autograd.Function, whose backward is a Python method. The method runs
// on the thread that called backward(). This thread takes the GIL unless it already holds the GIL.
class FunctionNode final : public autograd::TapeNode {
 public:
  FunctionNode(py::object backward, std::string name, bool takes_sparse)
      : backward_(std::move(backward)), name_(std::move(name)), takes_sparse_(takes_sparse) {}
  ~FunctionNode() override { release_saved(); }
  const char* name() const override { return name_.c_str(); }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                   std::span<const uint8_t> needs) override {
    const GilAcquire gil;
    py::list grads;
    for (const NDArrayRef& g : output_grads) grads.append(py::cast(g));
    const std::vector<NDArrayRef> result = grads_of(backward_(grads));
    MX_CHECK(result.size() == needs.size(), name_,
             ".backward must return one gradient for each input of forward, ", needs.size(),
             ", got ", result.size());
    return result;
  }
  void release_saved() override {
    if (!may_take_gil()) {
      backward_.release();
      return;
    }
    const GilAcquire gil;
    backward_ = py::object();
  }
  bool takes_sparse() const override { return takes_sparse_; }

 private:
  py::object backward_;
  std::string name_;
  bool takes_sparse_;
};

// Calls a Python function after each operator, except after operators that this function calls.
class PythonObserver final : public autograd::CallObserver {
 public:
  explicit PythonObserver(py::function hook) : hook_(std::move(hook)) {}
  void called(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
              std::span<const NDArrayRef> outputs) override {
    const auto visible =
        static_cast<size_t>(op.count_visible_outputs(params, static_cast<int>(inputs.size())));
    py::list names;
    for (size_t i = 0; i < inputs.size(); ++i) names.append(op.input_name(static_cast<int>(i)));
    const autograd::ModeScope quiet({false, mode.training});
    const autograd::ObserverScope unobserved(nullptr);
    hook_(op.name, names, arrays(inputs), arrays(outputs.first(visible)));
  }

 private:
  static std::vector<NDArrayRef> arrays(std::span<const NDArrayRef> list) {
    return {list.begin(), list.end()};
  }
  py::function hook_;
};

std::vector<NDArrayRef> arrays_of(const py::object& list, const char* who) {
  std::vector<NDArrayRef> result;
  for (const py::handle item : list) result.push_back(any_array_of(item, who));
  return result;
}

bool exchange(bool& flag, bool value) { return std::exchange(flag, value); }

// Shows a UserWarning at `line`, or at the line of the current call if `line` is empty.
void warn_at(const std::string& text, engine::Origin line) {
  const GilAcquire gil;
  if (!line.file) line = current_origin();
  py::module_::import("warnings")
      .attr("warn_explicit")(text, py::handle(PyExc_UserWarning), line.file ? line.file : "?",
                             line.line);
}

}  // namespace

void bind_autograd(py::module_& m) {
  m.def(
      "set_recording", [](bool v) { return exchange(mode.recording, v); }, py::arg("value"),
      "Switch recording in this thread; returns the old value.");
  m.def(
      "set_training", [](bool v) { return exchange(mode.training, v); }, py::arg("value"),
      "Switch training mode in this thread; returns the old value.");
  m.def(
      "is_recording", [] { return mode.recording; }, "Whether this thread is recording.");
  m.def(
      "is_training", [] { return mode.training; }, "Whether this thread is in training mode.");
  m.def(
      "set_anomaly_checks", [](bool v) { return autograd::anomaly_checks.exchange(v); },
      py::arg("value"),
      "Check the outputs of every operator and raise at the first NaN; returns the old value.");
  m.def(
      "anomaly_checks", [] { return autograd::anomaly_checks.load(); },
      "Whether outputs are checked for NaN.");
  m.def(
      "mark_variable",
      [](const py::handle& array, const py::handle& grad, int req, int stype) {
        autograd::mark_variable(any_array_of(array, "mark_variables"),
                                grad.is_none() ? nullptr : any_array_of(grad, "mark_variables"),
                                static_cast<autograd::GradReq>(req),
                                static_cast<StorageType>(stype));
      },
      py::arg("array"), py::arg("grad"), py::arg("req"), py::arg("stype") = 0,
      "Attach a gradient array (None: one of storage type stype, made when needed); req: 0 null, "
      "1 write, 2 add.");
  autograd::set_write_warning(&warn_at);
  m.def(
      "report_overwritten",
      [](const std::string& what, const py::object& shape, uint64_t version) {
        autograd::report_overwritten(what, shape_from_python(shape, "report_overwritten"), version);
      },
      py::arg("what"), py::arg("shape"), py::arg("version"),
      "Warn, once for each line that wrote, that a value was overwritten after it was recorded; "
      "raise while anomalies are looked for.");
  m.def(
      "grads_of",
      [](const py::list& variables) {
        py::list grads;
        for (const NDArrayRef& a : arrays_of(variables, "grads_of"))
          grads.append(autograd::gradient_of(*a));
        return grads;
      },
      py::arg("variables"), "Return the gradient array of each variable.");
  m.def(
      "stale_grads",
      [](const py::list& variables) {
        std::vector<size_t> stale;
        for (size_t i = 0; const NDArrayRef& a : arrays_of(variables, "stale_grads")) {
          const autograd::ArrayInfo* info = autograd::info_of(*a);
          if (!info || !info->fresh) stale.push_back(i);
          ++i;
        }
        return stale;
      },
      py::arg("variables"), "Return the positions of the variables whose _fresh_grad is False.");
  m.def(
      "set_fresh_grads",
      [](const py::list& variables, bool fresh) {
        for (const NDArrayRef& a : arrays_of(variables, "set_fresh_grads"))
          if (autograd::ArrayInfo* info = autograd::info_of(*a)) info->fresh = fresh;
      },
      py::arg("variables"), py::arg("fresh"), "Set _fresh_grad of all.");
  m.def(
      "backward",
      [](const py::list& heads, const py::object& head_grads, bool retain_graph, bool train_mode) {
        autograd::backward(arrays_of(heads, "backward"), grads_of(head_grads),
                           {.retain_graph = retain_graph, .training = train_mode});
      },
      py::arg("heads"), py::arg("head_grads"), py::arg("retain_graph"), py::arg("train_mode"),
      "Compute gradients of heads into the variables' grad arrays.");
  m.def(
      "gradients",
      [](const py::list& heads, const py::object& head_grads, const py::list& variables,
         bool retain_graph, bool create_graph, bool train_mode) {
        return autograd::gradients(arrays_of(heads, "grad"), grads_of(head_grads),
                                   arrays_of(variables, "grad"),
                                   {retain_graph, create_graph, train_mode});
      },
      py::arg("heads"), py::arg("head_grads"), py::arg("variables"), py::arg("retain_graph"),
      py::arg("create_graph"), py::arg("train_mode"), "Return gradients of heads as new arrays.");
  m.def(
      "call_observed",
      [](py::function hook, const py::function& function) {
        PythonObserver observer(std::move(hook));
        const autograd::ObserverScope scope(&observer);
        return function();
      },
      py::arg("hook"), py::arg("function"),
      "Return function(); hook(op, input names, inputs, outputs) follows each operator that this "
      "thread runs meanwhile.");
  m.def(
      "record_function",
      [](py::object backward, const std::string& name, const py::list& input_list,
         const py::list& output_list, bool takes_sparse) {
        const std::vector<NDArrayRef> inputs = arrays_of(input_list, name.c_str());
        if (!mode.recording || !autograd::needs_record(inputs)) return;
        const std::vector<NDArrayRef> outputs = arrays_of(output_list, name.c_str());
        auto node = make_ref<FunctionNode>(std::move(backward), name, takes_sparse);
        node->connect(inputs, outputs);
      },
      py::arg("backward"), py::arg("name"), py::arg("inputs"), py::arg("outputs"),
      py::arg("takes_sparse") = false,
      "Put a Python function on the tape; backward(list of output gradients) -> list.");
}

}  // namespace mxlite::python
