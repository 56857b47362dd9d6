// Conversions between Python and C++ objects: dtypes, devices and operator attributes.
#pragma once
#include <pybind11/pybind11.h>

#include <optional>

#include "cpp/core/device.h"
#include "cpp/core/dtype.h"
#include "cpp/ops/attr.h"

namespace mxlite::python {

namespace py = pybind11;

// Looks up NumPy's types now, so that no later call imports modules. A signal handler could
// interrupt such an import.
void import_numpy_types();
// Returns a type object such as numpy.float32. For bfloat16, returns ml_dtypes.bfloat16, or the
// text 'bfloat16' if that package is not installed. The reference is borrowed and stays valid.
PyObject* dtype_to_python(DType dtype);
// Returns NumPy's dtype object of a type, or the text 'bfloat16'. The reference is borrowed.
PyObject* numpy_dtype(DType dtype);
// Converts type objects, numpy.dtype objects and names. Returns nullopt for all other objects.
std::optional<DType> dtype_from_python(PyObject* o);
// Converts like dtype_from_python. Throws a type error that names `who` for other values.
DType require_dtype(py::handle o, const char* who);

// Converts numbers, strings, tuples, dtypes and contexts. Throws a type error for all other
// objects.
AttrValue attr_from_python(PyObject* o, const std::string& op, const std::string& param);
py::object attr_to_python(const AttrValue& value);

// Parses "cpu(0)" or "gpu(1)".
Device parse_device(const std::string& text);
// Converts a Context object. None gives the thread's current device.
Device device_from_python(py::handle o);
Device current_device();
// Returns the Context object of a device. Each device has one object, which the first call creates.
py::object device_to_python(const Device& device);

Shape shape_from_python(py::handle o, const char* who);
py::tuple shape_to_python(const Shape& shape);

void bind_device(py::module_& m);

}  // namespace mxlite::python
