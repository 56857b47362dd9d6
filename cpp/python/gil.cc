#include "cpp/python/gil.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace mxlite::python {
namespace {

// Identifier of Python's main thread. After fork(), this is the thread that forked.
std::atomic<unsigned long> main_thread{0};

void this_is_main_thread() { main_thread = PyThread_get_thread_ident(); }

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

}  // namespace

bool holds_gil() {
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* const current = PyThreadState_GetUnchecked();
#else
  PyThreadState* const current = _PyThreadState_UncheckedGet();
#endif
  return current && current == PyGILState_GetThisThreadState();
}

bool may_take_gil() { return Py_IsInitialized() && (!is_finalizing() || holds_gil()); }

void remember_main_thread() {
  const pybind11::module_ threading = pybind11::module_::import("threading");
  main_thread = threading.attr("main_thread")().attr("ident").cast<unsigned long>();
  pthread_atfork(nullptr, nullptr, this_is_main_thread);
}

bool is_main_thread() { return PyThread_get_thread_ident() == main_thread; }

bool ended_by_interrupt() {
  // Returns false for an interactive session, because it continues after Ctrl-C.
  PyObject* const raised = PySys_GetObject("last_type");
  return raised && !PySys_GetObject("ps1") && PyExceptionClass_Check(raised) &&
         PyErr_GivenExceptionMatches(raised, PyExc_KeyboardInterrupt);
}

void run_signal_handlers() {
  if (!may_take_gil()) return;
  const GilAcquire held;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace mxlite::python

// C API functions that _core calls and that may wait for the GIL or run Python code. The linker
// replaces NAME by __wrap_NAME, and __real_NAME by Python's function (Libraries.cmake reads the
// names from this file). tests/python/unit/test_exit.py lists the functions that neither wait nor
// run code.
namespace {

auto park_at_exit(auto&& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {  // pthread_exit: leaving this handler would end the process
    for (;;) pause();
  }
}

}  // namespace

#define PARKS(result, name, parameters, arguments)                \
  extern "C" result __real_##name parameters;                     \
  extern "C" result __wrap_##name parameters {                    \
    return park_at_exit([&] { return __real_##name arguments; }); \
  }

using Object = PyObject*;
PARKS(void, PyEval_RestoreThread, (PyThreadState * s), (s))
PARKS(void, PyEval_AcquireThread, (PyThreadState * s), (s))
PARKS(PyGILState_STATE, PyGILState_Ensure, (), ())
PARKS(void, _Py_Dealloc, (Object o), (o))
PARKS(int, PyErr_CheckSignals, (), ())
PARKS(void, PyErr_NormalizeException, (Object * t, Object* v, Object* b), (t, v, b))
PARKS(int, PyErr_WarnEx, (Object c, const char* m, Py_ssize_t l), (c, m, l))
PARKS(void, PyErr_WriteUnraisable, (Object o), (o))
PARKS(Object, PyImport_ImportModule, (const char* n), (n))
PARKS(Object, PyVectorcall_Call, (Object f, Object a, Object k), (f, a, k))
PARKS(Object, PyObject_GetAttr, (Object o, Object n), (o, n))
PARKS(Object, PyObject_GetAttrString, (Object o, const char* n), (o, n))
PARKS(int, PyObject_HasAttrString, (Object o, const char* n), (o, n))
PARKS(int, PyObject_SetAttr, (Object o, Object n, Object v), (o, n, v))
PARKS(int, PyObject_SetAttrString, (Object o, const char* n, Object v), (o, n, v))
PARKS(int, PyObject_GetBuffer, (Object o, Py_buffer* b, int f), (o, b, f))
PARKS(Object, PyObject_GetItem, (Object o, Object k), (o, k))
PARKS(int, PyObject_SetItem, (Object o, Object k, Object v), (o, k, v))
PARKS(Object, PyObject_GetIter, (Object o), (o))
PARKS(Object, PyIter_Next, (Object o), (o))
PARKS(int, PyObject_IsInstance, (Object o, Object c), (o, c))
PARKS(Object, PyObject_Repr, (Object o), (o))
PARKS(Object, PyObject_Str, (Object o), (o))
PARKS(Py_ssize_t, PyObject_Size, (Object o), (o))
PARKS(Object, PyMapping_Items, (Object o), (o))
PARKS(Object, PyMemoryView_FromObject, (Object o), (o))
PARKS(Object, PySequence_Fast, (Object o, const char* m), (o, m))
PARKS(Object, PySequence_GetItem, (Object o, Py_ssize_t i), (o, i))
PARKS(Object, PySequence_List, (Object o), (o))
PARKS(Object, PySequence_Tuple, (Object o), (o))
PARKS(Py_ssize_t, PySequence_Size, (Object o), (o))
PARKS(Object, PySet_New, (Object o), (o))
PARKS(int, PySet_Add, (Object s, Object o), (s, o))
PARKS(int, PySlice_Unpack, (Object s, Py_ssize_t* b, Py_ssize_t* e, Py_ssize_t* t), (s, b, e, t))
PARKS(Object, PyNumber_Add, (Object a, Object b), (a, b))
PARKS(Object, PyNumber_Float, (Object o), (o))
PARKS(Object, PyNumber_Index, (Object o), (o))
PARKS(Object, PyNumber_Long, (Object o), (o))
PARKS(double, PyFloat_AsDouble, (Object o), (o))
PARKS(long, PyLong_AsLong, (Object o), (o))
PARKS(long long, PyLong_AsLongLong, (Object o), (o))
PARKS(long long, PyLong_AsLongLongAndOverflow, (Object o, int* f), (o, f))
#if PY_VERSION_HEX >= 0x030B0000
PARKS(Object, PyObject_Vectorcall, (Object f, Object const* a, size_t n, Object k), (f, a, n, k))
#else  // inline before Python 3.11, where vectorcall.h renames it
#undef PyObject_Vectorcall
Object mxlite::python::vectorcall(Object f, Object const* a, size_t n, Object k) {
  return park_at_exit([&] { return PyObject_Vectorcall(f, a, n, k); });
}
#endif
