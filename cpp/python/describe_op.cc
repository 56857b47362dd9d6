#include "cpp/python/describe_op.h"

#include <pybind11/stl.h>

#include "cpp/ops/amp.h"

namespace mxlite::python {

namespace py = pybind11;

namespace {

py::dict describe_op(const OpSchema& op) {
  py::list params;
  for (const ParamInfo& p : op.params)
    params.append(py::dict(py::arg("name") = p.name, py::arg("python_type") = p.python_type,
                           py::arg("default") = p.default_text, py::arg("required") = p.required,
                           py::arg("range") = p.range, py::arg("doc") = p.doc));
  py::list kernels;
  for (const Kernel& k : op.kernels[DeviceType::kCPU]) kernels.append(k.name);
  return py::dict(
      py::arg("name") = op.name, py::arg("aliases") = op.aliases, py::arg("doc") = op.doc,
      py::arg("inputs") = op.inputs, py::arg("variadic") = op.variadic,
      py::arg("optional_inputs") = static_cast<bool>(op.input_count), py::arg("params") = params,
      py::arg("mutated") = op.mutated_inputs, py::arg("signature") = op.signature(),
      // Describes outputs by parameters: "one" array, "many" as a list, or "any" of the two.
      py::arg("outputs") = op.visible_outputs || op.output_count ? "any"
                           : op.num_outputs == 1                 ? "one"
                                                                 : "many",
      py::arg("differentiable") = op.gradient != nullptr || op.zero_gradient,
      py::arg("passes_gradient") = op.gradient != nullptr,
      py::arg("hidden") = op.name.starts_with("_"), py::arg("amp") = amp::class_name(op.amp),
      py::arg("shapes") = op.shapes, py::arg("cpu_kernels") = kernels);
}

}  // namespace

std::string doc_of(const OpSchema& op) {
  std::string text = op.name + op.signature() + "\n\n" + op.doc;
  if (!op.params.empty()) text += "\n\nParameters\n----------";
  for (const ParamInfo& p : op.params)
    text += "\n" + p.name + " : " + p.python_type +
            (p.required ? "" : ", default " + p.default_text) +
            (p.range.empty() ? "" : ", " + p.range) + "\n    " + p.doc;
  return text;
}

void bind_schemas(py::module_& m) {
  m.def(
      "describe_op", [](const std::string& name) { return describe_op(ops().get(name)); },
      py::arg("name"), "The entry of list_ops() for an operator, by name or alias.");
  m.def(
      "list_ops",
      [] {
        py::list list;
        for (const OpSchema* op : ops().all())
          if (!op->internal) list.append(describe_op(*op));
        return list;
      },
      "All operators but internal ones: name, aliases, doc, inputs, variadic, optional_inputs, "
      "params, signature, outputs, differentiable, passes_gradient, hidden, shapes, cpu_kernels in "
      "order.");
}

}  // namespace mxlite::python
