// Reads and writes symbols as JSON text.
#include "cpp/python/bind.h"
#include "cpp/python/py_node.h"
#include "cpp/symbol/files.h"

namespace mxlite::python {
namespace {

symbol::NodeOutputs load(const std::string& text, const std::string& source, bool np_shape) {
  return symbol::load(text, source, {make_symbol_call, is_python_call, np_shape});
}

}  // namespace

void bind_symbol_files(py::module_& m) {
  m.def("symbol_from_json", &load, py::arg("text"), py::arg("source"), py::arg("np_shape"),
        "The outputs of a graph as 1.x files have it; source names the file in errors.");
  m.def("symbol_to_json", &symbol::to_json, py::arg("heads"), py::arg("remove_amp_cast"),
        py::arg("np_shape"), "What 1.9.1 writes for a graph, character by character.");
}

}  // namespace mxlite::python
