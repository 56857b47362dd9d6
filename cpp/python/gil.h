// The global interpreter lock (GIL): giving it up, taking it, and what happens to a thread that
// asks for it while the interpreter ends. See Note [Threads at exit].
#pragma once
#include <pybind11/pybind11.h>

namespace mxlite::python {

// Note [Threads at exit]
// When the interpreter ends it stops every other thread that asks for the GIL, up to Python 3.13 by
// pthread_exit. That unwinds the stack like an exception which nobody may catch: it ends the
// process in a noexcept function (such as a destructor), and it destroys objects that need the GIL
// without it. As Python 3.14 does, such threads sleep instead until the process is gone. Each call
// into Python that may wait for the GIL needs that care, in pybind11's headers too, so the linker
// replaces these functions by those of gil.cc.

// Releases the GIL until the end of the scope.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() { PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// Holds the GIL until the end of the scope, on any thread.
class GilAcquire {
 public:
  GilAcquire() : state_(PyGILState_Ensure()) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

// Returns whether this thread holds the GIL. PyGILState_Check cannot tell: it returns 1 on every
// thread once the program has made a subinterpreter.
bool holds_gil();

// Whether this thread may take the GIL. Once the interpreter ends only the thread that ends it may:
// destructors on other threads leak their Python objects then.
bool may_take_gil();

// Returns whether this is Python's main thread, which runs the handlers of signals. The first
// function registers the thread for the second, at import.
void remember_main_thread();
bool is_main_thread();
// Runs pending handlers of signals, and throws what they raise (KeyboardInterrupt). For the main
// thread without the GIL.
void run_signal_handlers();

// Whether Ctrl-C has ended the program, whose exit handlers run now. Requires the GIL.
bool ended_by_interrupt();

}  // namespace mxlite::python
