// Access to the memory of a Python object with the buffer protocol.
#pragma once
#include <span>
#include <string>

#include "cpp/base/error.h"
#include "cpp/python/bind.h"

namespace mxlite::python {

// Refers to the memory of bytes, bytearray, memoryview or an array. All functions including the
// destructor need the GIL.
class ContiguousBytes {
 public:
  // Throws a type error that names `who` unless the object has a contiguous buffer.
  ContiguousBytes(const py::object& object, const std::string& who) {
    if (!PyObject_CheckBuffer(object.ptr()))
      fail(ErrorKind::kType, who, ": data must be bytes, got ",
           std::string(py::str(py::type::of(object))));
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      fail(ErrorKind::kType, who, ": data must be contiguous bytes, got ",
           std::string(py::str(py::type::of(object))), " with strides; pass bytes(data), a copy");
    }
  }
  ~ContiguousBytes() { PyBuffer_Release(&view_); }
  ContiguousBytes& operator=(ContiguousBytes&&) = delete;  // neither copied nor moved
  std::span<const std::byte> get() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

}  // namespace mxlite::python
