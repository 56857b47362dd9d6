// Converts an mxlite::Error to the class of mxlite.base for its kind, and exceptions of these
// classes to an mxlite::Error.
#include "cpp/python/errors.h"

#include <array>
#include <cstring>
#include <string_view>

#include "cpp/base/file_error.h"
#include "cpp/graph/trace.h"
#include "cpp/python/bind.h"
#include "cpp/python/op_object.h"

namespace mxlite::python {
namespace {

// The index is an ErrorKind.
constexpr std::array kClassNames = {"MXNetError",        "ShapeError",        "DTypeError",
                                    "IndexError_",       "ValueError_",       "TypeError_",
                                    "DeviceError",       "OutOfMemoryError",  "RecordError",
                                    "CommunicatorError", "NotSupportedError", "KeyboardInterrupt"};

const char* class_name(const Error& error) {
  if (dynamic_cast<const FileError*>(&error)) return "FileFormatError";
  if (dynamic_cast<const FileReadError*>(&error)) return "FileAccessError";
  if (dynamic_cast<const graph::TracedArrayError*>(&error)) return "TracedArrayError";
  if (dynamic_cast<const graph::DynamicShapeError*>(&error)) return "DynamicShapeError";
  // Workers copy errors of kernels, so these errors cannot have a separate class in C++.
  if (error.kind() == ErrorKind::kValue && std::string_view(error.what()).starts_with("linalg"))
    return "LinAlgError";
  return kClassNames[static_cast<size_t>(error.kind())];
}

void raise(const Error& error) {
  try {
    // KeyboardInterrupt is in builtins. The other classes are in mxlite.base.
    const char* module = error.kind() == ErrorKind::kInterrupt ? "builtins" : "mxlite.base";
    const py::object type = py::module_::import(module).attr(class_name(error));
    set_exception(type, error.what());
  } catch (py::error_already_set& e) {
    e.restore();
  }
}

}  // namespace

void set_exception(py::handle type, const char* text) {
  const auto size = static_cast<Py_ssize_t>(std::strlen(text));
  const auto value = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(text, size, "replace"));
  if (value) PyErr_SetObject(type.ptr(), value.ptr());
}

void rethrow_as_error(const py::error_already_set& raised) {
  const py::module_ classes = py::module_::import("mxlite.base");
  // Iterates from the last kind to the first, because kError is the base class.
  for (auto i = static_cast<size_t>(ErrorKind::kInterrupt); i-- > 0;)
    if (raised.matches(classes.attr(kClassNames[i])))
      throw Error(static_cast<ErrorKind>(i), py::str(raised.value()).cast<std::string>());
  throw raised;
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    raise(e);
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const py::builtin_exception& e) {
    e.set_error();
  } catch (const std::bad_alloc&) {
    raise(Error(ErrorKind::kOutOfMemory, "out of memory"));
  } catch (const std::exception& e) {
    raise(Error(ErrorKind::kError, e.what()));
  } catch (...) {
    raise(Error(ErrorKind::kError, "unknown C++ exception"));
  }
}

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error& e) {
      raise(e);
    }
  });
}

}  // namespace mxlite::python
