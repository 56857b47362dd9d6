// Conversions at the Python border: dtypes, devices, operator attributes.
#pragma once
#include <pybind11/pybind11.h>

#include <optional>

#include "cpp/core/device.h"
#include "cpp/core/dtype.h"
#include "cpp/ops/attr.h"

namespace mxlite::python {

namespace py = pybind11;

// numpy.float32 and the like (a type object); ml_dtypes.bfloat16, or the text 'bfloat16' without
// that package. Borrowed, lives forever.
// Looks NumPy's types up, so that no later call imports anything: a signal handler may interrupt
// it.
void import_numpy_types();
PyObject* dtype_to_python(DType dtype);
// Types, numpy.dtype objects, names; nullopt: none of these.
std::optional<DType> dtype_from_python(PyObject* o);
// Converts like the function above; other values are a type error that names `who`.
DType require_dtype(py::handle o, const char* who);

// Numbers, strings, tuples, dtypes, contexts; a type error for anything else names op and param.
AttrValue attr_from_python(PyObject* o, const std::string& op, const std::string& param);
py::object attr_to_python(const AttrValue& value);

// "cpu(0)", "gpu(1)".
Device parse_device(const std::string& text);
// Context object or None (the thread's current device).
Device device_from_python(py::handle o);
Device current_device();
// The Context object of a device: one per device, made at its first use and kept.
py::object device_to_python(const Device& device);

Shape shape_from_python(py::handle o, const char* who);
py::tuple shape_to_python(const Shape& shape);

void bind_device(py::module_& m);

}  // namespace mxlite::python
