// Shape and type inference of symbols.
#include "cpp/python/convert.h"
#include "cpp/python/py_node.h"
#include "cpp/symbol/footprint.h"

namespace mxlite::python {

using symbol::Inference;
using symbol::Node;
using symbol::UnknownExtent;

namespace {

UnknownExtent spelling(bool np_shape) {
  return np_shape ? UnknownExtent::kNegative : UnknownExtent::kZero;
}

Inference make_inference(symbol::NodeOutputs heads, const py::dict& shapes, const py::dict& types,
                         bool np_shape) {
  Inference::Shapes known_shapes;
  for (const auto& [name, shape] : shapes)
    known_shapes[name.cast<std::string>()] = partial_shape_from_python(shape);
  Inference::Types known_types;
  for (const auto& [name, dtype] : types)
    if (!dtype.is_none())
      known_types[name.cast<std::string>()] = require_dtype(dtype, "type inference");
  return {std::move(heads), known_shapes, known_types, spelling(np_shape)};
}

}  // namespace

void bind_inference(py::module_& m) {
  py::class_<Inference>(m, "Inference", "Shapes and types of all values of a symbol.")
      .def(py::init(&make_inference), py::arg("heads"), py::arg("shapes"), py::arg("types"),
           py::arg("np_shape"),
           "Shapes and types of variables by name; -1 is an unknown extent, None an unknown shape.")
      .def(
          "run_types",
          [](Inference& self, const py::object& fallback) {
            self.run_types(fallback.is_none()
                               ? KnownType()
                               : KnownType(require_dtype(fallback, "type inference")));
          },
          py::arg("fallback") = py::none(),
          "Spread types; fallback is for variables that stay unknown.")
      .def("run_shapes", &Inference::run_shapes, "Spread shapes; an error if they do not fit.")
      .def_property_readonly("nodes", &Inference::nodes, "Inputs before their users.")
      .def_property_readonly("casts_precision", &Inference::casts_precision,
                             "Whether the graph has casts of mixed precision.")
      .def(
          "shape",
          [](const Inference& self, const Node& node, int output) {
            return partial_shape_to_python(self.shape(node, output));
          },
          py::arg("node"), py::arg("output") = 0)
      .def(
          "type",
          [](const Inference& self, const Node& node, int output) {
            return known_type_to_python(self.type(node, output));
          },
          py::arg("node"), py::arg("output") = 0, "Name of the dtype, or None.")
      .def(
          "completed_calls",
          [](const Inference& self) {
            py::dict calls;
            const auto found = self.completed_calls();
            for (const symbol::NodeRef& node : self.nodes())
              if (const auto call = found.find(node.get()); call != found.end())
                calls[py::cast(node)] = call_to_python(call->second);
            return calls;
          },
          "Calls with the shapes that were found, by node, where they were left to users.")
      .def("bytes_of_results", &symbol::bytes_of_results, py::arg("differentiated"),
           "The most bytes of results that are alive at the same time, forward and backward; the "
           "variables of these names get gradients.");
  m.def(
      "parse_shape",
      [](const std::string& text, bool np_shape, const std::string& who) {
        return partial_shape_to_python(symbol::parse_shape(text, spelling(np_shape), who));
      },
      py::arg("text"), py::arg("np_shape"), py::arg("who"),
      "A shape as attributes have it, with -1 for unknown extents; None for an unknown one.");
}

}  // namespace mxlite::python
