// Mixed precision. mx.contrib.amp sets the precision in which each operator runs.
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cpp/graph/host_op.h"
#include "cpp/ops/amp.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/symbol/names.h"

namespace mxlite::python {
namespace {

using Conditions = std::vector<std::tuple<std::string, std::string, std::vector<std::string>>>;

using Names = std::vector<std::string>;

// The lists replace the lists of the schemas. Throws a value error if an operator is in two lists.
std::shared_ptr<amp::Rules> make_rules(const py::object& target, const Names& low,
                                       const Names& float32, const Conditions& conditions) {
  auto rules = std::make_shared<amp::Rules>();
  rules->target = require_dtype(target, "amp");
  for (const OpSchema* op : ops().all())
    if (!op->internal && op->amp.kind != AmpClass::kWidest) rules->classes[op] = AmpClass::kNeutral;
  std::map<const OpSchema*, int> lists;
  std::set<std::string> twice;
  const auto operator_of = [&](const std::string& name, int list) {
    const OpSchema& op =
        name == "Custom" ? graph::host_schema(name) : ops().get_public(symbol::engine_name(name));
    if (lists.try_emplace(&op, list).first->second != list) twice.insert(op.name);
    return &op;
  };
  for (const std::string& name : low)
    rules->classes[operator_of(name, 0)] = AmpClass::kLowPrecision;
  for (const std::string& name : float32) rules->classes[operator_of(name, 1)] = AmpClass::kFloat32;
  for (const auto& [name, param, values] : conditions)
    rules->conditions[operator_of(name, 2)].push_back({param, values});
  std::string names;
  for (const std::string& name : twice) names.append(names.empty() ? "" : ", ").append(name);
  MX_CHECK(twice.empty(), "amp: every operator must be in at most one list, got ", names,
           " in two");
  return rules;
}

}  // namespace

void bind_amp(py::module_& m) {
  py::class_<amp::Rules, std::shared_ptr<amp::Rules>>(m, "PrecisionRules",
                                                      "In which precision operators run.")
      .def(py::init(&make_rules), py::arg("target"), py::arg("low_precision"), py::arg("float32"),
           py::arg("conditions"),
           "Operators by name or alias; conditions: (operator, parameter, values for which it "
           "needs float32).")
      .def_property_readonly(
          "target", [](const amp::Rules& self) { return dtype_name(self.target); },
          "The lower precision: float16 or bfloat16.");
  m.def(
      "set_amp",
      [](const std::optional<std::shared_ptr<amp::Rules>>& rules) {
        amp::set_rules(rules.value_or(nullptr));
      },
      py::arg("rules"), "Cast the inputs of operators by these rules from now on; None: no casts.");
  m.def("set_amp_scale", amp::set_loss_scale, py::arg("scale"),
        "The factor of grad_scale of loss outputs.");
}

}  // namespace mxlite::python
