#include "cpp/python/describe_op.h"

#include <pybind11/stl.h>

#include "cpp/ops/amp.h"

namespace mxlite::python {

namespace py = pybind11;

namespace {

const char* alias_storage_name(AliasStorage storage) {
  switch (storage) {
    case AliasStorage::kUnion:
      return "union";
    case AliasStorage::kStored:
      return "stored";
    case AliasStorage::kRowGradient:
      return "row_gradient";
  }
  return "";
}

py::dict describe_storage(const StorageTraits& storage) {
  py::dict aliases;
  for (const auto& [name, kind] : storage.aliases)
    aliases[py::str(name)] = alias_storage_name(kind);
  py::object row_update = py::none();
  if (const RowUpdate& update = storage.row_update; !update.op.empty())
    row_update = py::dict(py::arg("op") = update.op, py::arg("any_states") = update.any_states,
                          py::arg("sparse_weight") = update.sparse_weight);
  return py::dict(py::arg("dense_result") = storage.dense_result,
                  py::arg("chooses_storage") = storage.chooses_storage,
                  py::arg("row_update") = row_update, py::arg("aliases") = aliases);
}

py::object describe_update_family(const UpdateFamily& family) {
  if (family.name.empty()) return py::none();
  return py::dict(py::arg("name") = family.name, py::arg("mixed") = family.mixed,
                  py::arg("count") = family.count, py::arg("listed") = family.listed);
}

// Describes how mixed precision treats an operator.
py::dict describe_amp(const OpSchema& op) {
  py::object float32_if = py::none();
  if (const AmpCondition& condition = op.amp.float32_if; !condition.param.empty())
    float32_if = py::make_tuple(condition.param, condition.values);
  return py::dict(
      py::arg("kind") = amp::class_name(op.amp.kind), py::arg("float32_if") = float32_if,
      py::arg("float32_inputs") = op.amp.float32_inputs, py::arg("loss_output") = op.loss_output);
}

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
      // Kind of result: "one" array, "many" arrays (a list), or "any" if the parameters determine
      // the kind.
      py::arg("outputs") = op.visible_outputs || op.output_count ? "any"
                           : op.num_outputs == 1                 ? "one"
                                                                 : "many",
      py::arg("differentiable") = op.gradient != nullptr || op.zero_gradient,
      // Operators that choose the storage type of their results are called through functions of
      // mx.nd.sparse.
      py::arg("hidden") = op.name.starts_with("_") || op.storage.chooses_storage,
      py::arg("amp") = describe_amp(op), py::arg("storage") = describe_storage(op.storage),
      py::arg("update_family") = describe_update_family(op.update_family),
      py::arg("drawing") = py::make_tuple(op.drawing.kind, op.drawing.label),
      py::arg("shapes") = op.shapes, py::arg("cpu_kernels") = kernels);
}

}  // namespace

std::string doc_of(const OpSchema& op) {
  std::string text = op.name + op.signature() + "\n\n" + op.doc;
  if (!op.inputs.empty() || !op.params.empty()) text += "\n\nParameters\n----------";
  if (!op.inputs.empty()) {
    text += op.variadic ? "\n*" : "\n";
    for (const std::string& input : op.inputs)
      text += (&input == &op.inputs.front() ? "" : ", ") + input;
    text += " : NDArray or Symbol";
    if (!op.shapes.empty()) text += "\n    Shapes, inputs -> output: " + op.shapes + ".";
  }
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
      "params, signature, outputs, differentiable, hidden, amp, storage, "
      "update_family, drawing, shapes, cpu_kernels in order.");
}

}  // namespace mxlite::python
