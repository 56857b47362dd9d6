// Finds the user's Python line of the current call. Errors that appear later contain this line.
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "cpp/python/bind.h"
#include "cpp/python/op_object.h"

namespace mxlite::python {
namespace {

struct SourceFile {
  const char* path;
  bool in_package;  // whether the file belongs to mxlite
};

// Returns the folder of the package, with a slash at its end.
const std::string& package_folder() {
  static const auto* folder = [] {
    std::string path;
    try {
      path = py::cast<std::string>(py::module_::import("mxlite._core").attr("__file__"));
    } catch (py::error_already_set&) {  // no __file__ because of an unusual loader: all frames
                                        // count as the user's
    }
    return new std::string(path.substr(0, path.rfind('/') + 1));
  }();
  return *folder;
}

const SourceFile& source_file(PyObject* name) {
  // The map is leaked, because few file names exist, and tasks outlive the frames that pushed them.
  static auto* files = new std::unordered_map<PyObject*, SourceFile>;
  static std::pair<PyObject*, const SourceFile*> last;  // cache, because consecutive calls are
                                                        // mostly in one file
  if (last.first == name) return *last.second;
  const auto found = files->find(name);
  if (found != files->end()) {
    last = {name, &found->second};
    return found->second;
  }
  Py_INCREF(name);
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) {
    PyErr_Clear();
    text = "?";
  }
  const auto* path = new std::string(text);
  const std::string& package = package_folder();
  const bool in_package = !package.empty() && path->starts_with(package);
  return files->emplace(name, SourceFile{path->c_str(), in_package}).first->second;
}

PyCodeObject* code_of(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  Py_DECREF(code);  // the frame keeps the code object alive
  return code;
}

int line_of(PyFrameObject* frame, [[maybe_unused]] PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  // Python searches a function's line table from its start, which takes microseconds in long
  // functions. This cache holds recent results. The GIL guards it.
  struct KnownLine {
    PyCodeObject* code;  // owned, so that no other code object can get its address
    int instruction, line;
  };
  static std::array<KnownLine, 256> known{};
  const int instruction = PyFrame_GetLasti(frame);
  const size_t hash = reinterpret_cast<uintptr_t>(code) / 16 + static_cast<size_t>(instruction) / 2;
  KnownLine& entry = known[hash % known.size()];
  if (entry.code == code && entry.instruction == instruction) return entry.line;
  const int line = PyFrame_GetLineNumber(frame);
  Py_INCREF(code);
  PyCodeObject* const old = std::exchange(entry, {code, instruction, line}).code;
  Py_XDECREF(old);
  return line;
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

}  // namespace

// Returns the innermost frame outside mxlite, or the outermost frame if all frames belong to
// mxlite.
engine::Origin current_origin() {
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_GET());
  if (!frame) return {};
  PyCodeObject* code = code_of(frame);
  const SourceFile* file = &source_file(code->co_filename);
  while (file->in_package) {
    PyFrameObject* caller = PyFrame_GetBack(frame);
    if (!caller) break;
    Py_DECREF(frame);
    frame = caller;
    code = code_of(frame);
    file = &source_file(code->co_filename);
  }
  const engine::Origin origin{file->path, line_of(frame, code)};
  Py_DECREF(frame);
  return origin;
}

}  // namespace mxlite::python
