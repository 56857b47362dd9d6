// Releases and acquires the global interpreter lock (GIL), also while the interpreter is
// finalizing. See Note [Threads at exit].
#pragma once
#include <pybind11/pybind11.h>

#include "cpp/engine/running_task.h"

namespace mxlite::python {

// Note [Threads at exit]
// A finalizing interpreter stops every other thread that tries to take the GIL. Up to Python 3.13,
// it calls pthread_exit, which unwinds the stack like an exception that must not be caught. The
// process then ends if a function is noexcept (such as a destructor), and objects that need the GIL
// are destroyed without the GIL. mxlite lets such threads sleep until the process ends, as Python
// 3.14 does. This concerns every C API call that may wait for the GIL, also calls in pybind11's
// headers. Therefore the linker replaces these functions by wrappers in gil.cc.

// Releases the GIL until the end of the scope.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease& operator=(GilRelease&&) = delete;  // neither copied nor moved

 private:
  PyThreadState* state_;
};

// Holds the GIL until the end of the scope, on any thread.
class GilAcquire {
 public:
  GilAcquire() : state_(PyGILState_Ensure()) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire& operator=(GilAcquire&&) = delete;  // neither copied nor moved

 private:
  const engine::UncountedTasks uncounted_;  // before state_, because a forking thread has the GIL
  PyGILState_STATE state_;
};

// Returns whether this thread holds the GIL. PyGILState_Check cannot be used: it returns 1 on every
// thread once the program has created a subinterpreter.
bool holds_gil();

// Returns whether this thread may acquire the GIL. While the interpreter finalizes, only the
// finalizing thread may acquire it. Destructors on other threads then leak their Python objects.
bool may_take_gil();

// is_main_thread returns whether this is Python's main thread, which runs signal handlers.
// remember_main_thread registers that thread when the module is imported.
void remember_main_thread();
bool is_main_thread();
// Runs pending signal handlers and throws their exceptions (KeyboardInterrupt). Call only on the
// main thread and without holding the GIL.
void run_signal_handlers();

// Returns whether Ctrl-C ended the program. Serves exit handlers. Requires the GIL.
bool ended_by_interrupt();

}  // namespace mxlite::python
