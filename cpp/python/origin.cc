// The Python line of the current call, for errors that appear later.
#include <string>
#include <unordered_map>

#include "cpp/python/op_object.h"

namespace mxlite::python {

engine::Origin current_origin() {
  // Leaked on purpose: file names are few, and tasks outlive the frames that pushed them.
  static auto* files = new std::unordered_map<PyObject*, const char*>;
#if PY_VERSION_HEX >= 0x030B0000
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_GET());
  if (!frame) return {};
  const int line = PyFrame_GetLineNumber(frame);
  PyCodeObject* code = PyFrame_GetCode(frame);
  Py_DECREF(frame);
#else
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  const int line = PyFrame_GetLineNumber(frame);
  PyCodeObject* code = PyFrame_GetCode(frame);
#endif
  PyObject* name = code->co_filename;
  auto [it, inserted] = files->try_emplace(name);
  if (inserted) {
    Py_INCREF(name);
    const char* text = PyUnicode_AsUTF8(name);
    it->second = (new std::string(text ? text : "?"))->c_str();
  }
  Py_DECREF(code);
  return {it->second, line};
}

}  // namespace mxlite::python
