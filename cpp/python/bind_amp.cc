// Mixed precision: mx.contrib.amp sets in which precision each operator runs.
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cpp/ops/amp.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"

namespace mxlite::python {
namespace {

using Conditions = std::vector<std::tuple<std::string, std::string, std::vector<std::string>>>;

void set_rules(const py::object& target, const std::map<std::string, std::string>& classes,
               const Conditions& conditions) {
  auto rules = std::make_shared<amp::Rules>();
  rules->target = require_dtype(target, "amp");
  MX_CHECK(is_half(rules->target), "amp: target dtype ", rules->target,
           " given, float16 or bfloat16 expected");
  for (const auto& [op, name] : classes) {
    const std::optional<AmpClass> found = amp::class_from_name(name);
    MX_CHECK(found, "amp: class '", name, "' given for ", op,
             ", neutral, low_precision, float32 or widest expected");
    rules->classes[&ops().get(op)] = *found;
  }
  for (const auto& [op, param, values] : conditions)
    rules->conditions[&ops().get(op)].push_back({param, values});
  amp::set_rules(rules);
}

}  // namespace

void bind_amp(py::module_& m) {
  m.def("set_amp", set_rules, py::arg("target"), py::arg("classes"), py::arg("conditions"),
        "Cast the inputs of operators from now on. classes: operator -> neutral, low_precision, "
        "float32, widest (absent: the schema's); conditions: (operator, parameter, values for "
        "which it needs float32).");
  m.def(
      "unset_amp", [] { amp::set_rules(nullptr); }, "No casts from now on.");
  m.def("set_amp_scale", amp::set_loss_scale, py::arg("scale"),
        "The factor of grad_scale of loss outputs.");
}

}  // namespace mxlite::python
