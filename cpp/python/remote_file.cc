#include "cpp/python/remote_file.h"

#include <memory>

#include "cpp/base/file_error.h"
#include "cpp/python/gil.h"

namespace mxlite::python {
namespace {

// Returns a reference to a Python object. The last holder may release it on any thread.
std::shared_ptr<PyObject> shared(py::object object) {
  return {object.release().ptr(), [](PyObject* held) {
            if (!may_take_gil()) return;
            const GilAcquire gil;
            Py_DECREF(held);
          }};
}

}  // namespace

ByteSource remote_source(const py::object& file, std::string name) {
  const auto read_into = shared(file.attr("read_into"));
  const auto read = [read_into](size_t offset, std::span<std::byte> to) {
    const GilAcquire gil;
    try {
      const auto size = static_cast<py::ssize_t>(to.size());
      py::handle(read_into.get())(offset, py::memoryview::from_memory(to.data(), size));
    } catch (const py::error_already_set& e) {
      if (!e.matches(PyExc_Exception)) throw;  // Ctrl-C
      throw FileReadError(py::str(e.value()).cast<std::string>());
    }
  };
  return {py::len(file), read, std::move(name)};
}

ByteSource open_remote(const std::string& address) {
  const GilAcquire gil;
  const py::module_ remote = py::module_::import("mxlite._files.remote");
  return remote_source(remote.attr("RemoteFile")(address), address);
}

}  // namespace mxlite::python
