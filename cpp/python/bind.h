// Declares the binding functions, one for each file. module.cc calls them.
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_device(py::module_& m);
void bind_array(py::module_& m);      // NDArray: attributes, conversion, waiting
void bind_operators(py::module_& m);  // NDArray: + - * / ** and comparisons
void bind_numpy(py::module_& m);      // NumPy and DLPack
void bind_searching(py::module_& m);  // results whose size or validity depends on values
void bind_ops(py::module_& m);
void bind_autograd(py::module_& m);
void bind_graph(py::module_& m);
void bind_control_flow(py::module_& m);  // while_loop and cond inside hybridized forwards
void bind_custom(py::module_& m);        // operators written in Python
void bind_sparse(py::module_& m);
void bind_embedding(py::module_& m);  // tables of mxlite.parallel
void bind_amp(py::module_& m);        // mixed precision
void bind_symbol(py::module_& m);
void bind_recorded(py::module_& m);    // autograd.get_symbol
void bind_checkpoint(py::module_& m);  // checksums, states of random generators
void bind_engine(py::module_& m);
void bind_profiler(py::module_& m);
void bind_io(py::module_& m);      // JPEG decoding, resizing
void bind_record(py::module_& m);  // RecordIO files, image encoding
void bind_rtc(py::module_& m);     // kernels compiled at run time
void bind_text_rows(py::module_& m);
void bind_image_pipeline(py::module_& m);

}  // namespace mxlite::python
