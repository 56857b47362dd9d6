// Bindings of the engine: waitall, random seeds, thread counts, memory statistics and shutdown.
#include "cpp/core/profile_hooks.h"
#include "cpp/core/random.h"
#include "cpp/core/threads.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/graph_engine.h"
#include "cpp/engine/running_task.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/ndarray/awaited_array.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {

void bind_engine(py::module_& m) {
  remember_main_thread();
  // Every wait in the engine releases the GIL, because the task may need the GIL on another thread.
  engine::set_blocking_hooks([]() -> void* { return holds_gil() ? PyEval_SaveThread() : nullptr; },
                             [](void* state) {
                               if (state) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
                             });
  // Runs after the interpreter has ended and before static objects of libraries are destroyed.
  Py_AtExit([] { engine::wait_for_running_tasks(2.0); });
  engine::set_interrupt_hooks({&is_main_thread, &run_signal_handlers});
  m.def(
      "waitall",
      [] {
        const ProfileScope profile("MXNDArrayWaitAll", ProfileKind::kApi);
        engine::Engine::get().wait_all();
      },
      "Block until all work is done; raises the first error that no wait has raised.");
  m.def(
      "engine_stop",
      [] {
        const GilRelease released;
        engine::Engine::get().stop();
      },
      "Finish queued work and join the workers.");
  m.def(
      "engine_cancel",
      [](const std::string& reason) {
        static_cast<engine::GraphEngine&>(engine::Engine::get()).cancel_queued(reason);
      },
      py::arg("reason"), "Let queued work that has not begun fail instead of running.");
  m.def("ended_by_interrupt", &ended_by_interrupt,
        "For exit handlers: whether Ctrl-C has ended the program.");
  m.def(
      "engine_stats",
      [] {
        const engine::EngineStats s = engine::Engine::get().stats();
        return py::dict(py::arg("pushed") = s.pushed, py::arg("run_by_caller") = s.run_by_caller,
                        py::arg("in_flight") = s.in_flight,
                        py::arg("bytes_in_flight") = s.bytes_in_flight);
      },
      "Counts of tasks: pushed, run_by_caller, in_flight, bytes_in_flight.");
  m.def(
      "seed",
      [](uint64_t seed, const py::object& ctx) {
        if (ctx.is_none())
          seed_random(seed);
        else
          seed_random(seed, device_from_python(ctx));
      },
      py::arg("seed"), py::arg("ctx") = py::none(), "Seed all devices' generators, or one's.");
  m.def(
      "engine_runs_in_caller", [] { return engine::Engine::get().runs_in_caller(); },
      "Whether operators run in the calling thread: a naive engine, after its end, or in a fork.");
  py::class_<AwaitedArray>(
      m, "AwaitedArray",
      "An array in host memory whose value the program gives later; what reads "
      "it may be called before.")
      .def(py::init([](const py::tuple& shape, const py::object& dtype, const std::string& who) {
             const TensorSpec spec{shape_from_python(shape, who.c_str()),
                                   require_dtype(dtype, who.c_str())};
             return std::make_unique<AwaitedArray>(spec, who, comm_timeout());
           }),
           py::arg("shape"), py::arg("dtype"), py::arg("who"))
      .def_property_readonly("array", &AwaitedArray::array)
      .def("give", &AwaitedArray::give, py::arg("value"))
      .def("fail", &AwaitedArray::fail, py::arg("reason"))
      .def("expect", &AwaitedArray::expect, py::arg("missing"),
           "Set the reason in the error of an array that gets no value in time.")
      .def_property_readonly("over", &AwaitedArray::over,
                             "Whether a value was given, or the array has failed.");
  m.def("cpu_threads", &cpu_threads, "Threads that operators use.");
  m.def("set_cpu_threads", &set_cpu_threads, py::arg("count"),
        "Set the threads that operators use.");
}

}  // namespace mxlite::python
