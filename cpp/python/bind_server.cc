// The parameter server: server processes, and the client of a training process. Pushes and pulls
// are engine tasks. They end when the servers have answered.
#include <pybind11/stl.h>
#include <unistd.h>

#include <optional>

#include "cpp/kvstore/store/server_task.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_server.h"
#include "cpp/python/update_runner.h"

namespace mxlite::python {
namespace {

using store::ServerOperation;

std::string package_version() {
  return py::module_::import("mxlite").attr("__version__").cast<std::string>();
}

// Runs pending Python signal handlers. An exception (Ctrl-C) stops the server. Takes the GIL.
void raise_signals() {
  const GilAcquire held;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// Calls the program's function. Converts its Python exception to an Error, which is sent to the
// client.
void call_profile(const py::function& profile, int rank, const std::string& name,
                  const std::string& text) {
  const GilAcquire held;
  try {
    profile(rank, name, text);
  } catch (const py::error_already_set& e) {
    if (!e.matches(PyExc_Exception)) throw;  // for example KeyboardInterrupt
    const auto kind = e.matches(PyExc_OSError)      ? ErrorKind::kRecord
                      : e.matches(PyExc_TypeError)  ? ErrorKind::kType
                      : e.matches(PyExc_ValueError) ? ErrorKind::kValue
                                                    : ErrorKind::kError;
    fail(kind, py::str(e.value()).cast<std::string>());
  }
}

void run_server_role(const std::string& name, const std::optional<py::function>& profile) {
  store::ServerHooks hooks;
  hooks.interrupted = raise_signals;
  if (profile)
    hooks.profile = [&profile](int rank, const std::string& what, const std::string& text) {
      call_profile(*profile, rank, what, text);
    };
  const std::string version = package_version();
  const GilRelease released;
  store::server_plugin().run(name, version, hooks);
}

const NDArrayRef& dense_host_array(const NDArrayRef& array, const char* what,
                                   const std::string& key) {
  MX_CHECK(array && array->contiguous() && !array->is_traced() && !array->is_sparse(), what, ": '",
           key, "': the array must be contiguous and dense");
  const std::string device = device_type_name(array->device().type);
  MX_CHECK_KIND(device != "gpu", ErrorKind::kDevice, what, ": '", key,
                "': the array must be in host memory, got an array on ", array->device());
  return array;
}

class PyClient {
 public:
  PyClient() : process_(getpid()) {
    const std::string version = package_version();
    {
      const GilRelease released;
      client_ = store::server_plugin().connect(version);
    }
    // The process must leave the job before the engine stops. An atexit handler ensures this.
    const auto leave = [weak = std::weak_ptr(client_), process = process_] {
      const auto client = weak.lock();
      if (!client || process != getpid()) return;
      const bool interrupted = ended_by_interrupt();
      const GilRelease released;
      if (!interrupted) engine::Engine::get().drain();
      client->close(/*at_once=*/interrupted);
    };
    py::module_::import("atexit").attr("register")(py::cpp_function(leave));
  }
  ~PyClient() {
    try {
      const GilRelease released;
      close();
    } catch (py::error_already_set& e) {  // thrown by a signal handler
      e.discard_as_unraisable("ServerClient");
    }
  }
  PyClient& operator=(PyClient&&) = delete;  // neither copied nor moved

  store::ServerClient& client() const { return *shared(); }
  int rank() const { return client().rank(); }
  int num_workers() const { return client().num_workers(); }
  int num_servers() const { return client().num_servers(); }

  void init(const std::vector<std::string>& keys, const std::vector<NDArrayRef>& values) {
    for (size_t i = 0; i < values.size() && i < keys.size(); ++i)
      dense_host_array(values[i], "init", keys[i]);
    client().init(keys, values);
  }
  void push(const std::string& key, const NDArrayRef& array, int priority) {
    submit("push", {client().find(key), array, nullptr, nullptr, nullptr, priority, {}});
  }
  void pull(const std::string& key, const NDArrayRef& out, int priority) {
    submit("pull", {client().find(key), nullptr, out, nullptr, nullptr, priority, {}});
  }
  void pushpull(const std::string& key, const NDArrayRef& in, const NDArrayRef& out, int priority) {
    submit("pushpull", {client().find(key), in, out, nullptr, nullptr, priority, {}});
  }
  void push_rows(const std::string& key, const NDArrayRef& ids, const NDArrayRef& rows,
                 int priority) {
    submit("push", {client().find(key), rows, nullptr, ids, nullptr, priority, {}});
  }
  void pull_rows(const std::string& key, const NDArrayRef& ids, const NDArrayRef& out,
                 int priority) {
    submit("pull", {client().find(key), nullptr, out, nullptr, ids, priority, {}});
  }
  void set_sync(bool sync) {
    client().set_sync(sync);
    sync_ = sync;
  }
  void set_compression(const std::string& type, double threshold) {
    client().set_compression(store::make_compression(type, threshold));
  }
  py::object report() const { return py::module_::import("json").attr("loads")(client().report()); }
  void close() {
    if (!client_ || process_ != getpid()) return;
    engine::Engine::get().drain();
    client_->close();
  }

 private:
  const std::shared_ptr<store::ServerClient>& shared() const {
    MX_CHECK_KIND(process_ == getpid(), ErrorKind::kCommunicator,
                  "kvstore: the store must be used in the process that created it, not in a fork");
    return client_;
  }

  static void check_whole(const char* what, const store::StoredKey& stored,
                          const NDArrayRef& array) {
    dense_host_array(array, what, stored.key);
    MX_CHECK_SHAPE(array->shape() == stored.spec.shape, what, ": '", stored.key,
                   "': shape must be ", stored.spec.shape, ", got ", array->shape());
    check_dtype(what, stored, array);
  }
  static void check_dtype(const char* what, const store::StoredKey& stored,
                          const NDArrayRef& array) {
    MX_CHECK_DTYPE(array->dtype() == stored.spec.dtype, what, ": '", stored.key,
                   "': dtype must be ", stored.spec.dtype, ", got ", array->dtype());
  }
  static void check_some(const char* what, const store::StoredKey& stored, const NDArrayRef& ids,
                         const NDArrayRef& rows) {
    dense_host_array(ids, what, stored.key);
    dense_host_array(rows, what, stored.key);
    MX_CHECK_DTYPE(ids->dtype() == DType::kInt64, what, ": '", stored.key,
                   "': row ids must be of dtype int64, got ", ids->dtype());
    check_dtype(what, stored, rows);
    MX_CHECK_SHAPE(rows->size() == ids->size() * stored.layout.row_size, what, ": '", stored.key,
                   "': rows must be one row for each of the ", ids->size(),
                   " row ids of an array of shape ", stored.spec.shape, ", got shape ",
                   rows->shape());
  }

  void submit(const char* name, ServerOperation o) {
    if (o.push)
      o.push_rows ? check_some(name, *o.stored, o.push_rows, o.push)
                  : check_whole(name, *o.stored, o.push);
    if (o.pull)
      o.pull_rows ? check_some(name, *o.stored, o.pull_rows, o.pull)
                  : check_whole(name, *o.stored, o.pull);
    // Copies the handles, because the caller may assign other memory to its handles before the task
    // runs.
    for (NDArrayRef* array : {&o.push, &o.pull, &o.push_rows, &o.pull_rows})
      if (*array) *array = (*array)->detached();
    std::vector<engine::Var*> reads, overwrites, updates;
    size_t bytes = 0;
    for (const NDArrayRef& input : {o.push, o.push_rows, o.pull_rows})
      if (input && !(o.pull && input->storage() == o.pull->storage()))
        reads.push_back(&input->storage()->var());
    if (o.pull) {
      const bool whole = o.pull->spec().bytes() == o.pull->storage()->bytes() &&
                         !(o.push && o.push->storage() == o.pull->storage());
      (whole ? overwrites : updates).push_back(&o.pull->storage()->var());
      bytes += o.pull->storage()->take_new_bytes();
    }
    // A push clears the failure of the previous push. Pulls of that push have already raised this
    // failure.
    (o.push ? overwrites : reads).push_back(&o.stored->order);
    const bool may_inline = !o.push || o.push->spec().bytes() < kSmall;
    auto task = make_ref<store::ServerTask>(name, current_origin(), std::move(o), shared(), sync_);
    engine::Engine::get().push(task, {reads, overwrites, updates},
                               {.may_inline = may_inline, .bytes = bytes});
  }

  static constexpr size_t kSmall = 64 << 10;
  const pid_t process_;
  std::shared_ptr<store::ServerClient> client_;
  bool sync_ = true;
};

template <class R, class... Args>
auto without_gil(R (store::ServerClient::*method)(Args...)) {
  return [method](PyClient& self, std::decay_t<Args>... args) {
    const GilRelease released;
    return (self.client().*method)(std::move(args)...);
  };
}

}  // namespace

void bind_server(py::module_& m) {
  store::set_update_operators({&run_update_of_server, &find_update_of_server});
  m.def("run_server_role", &run_server_role, py::arg("role"), py::arg("profile") = py::none(),
        "Be the scheduler or a server of the job that DMLC_* describe, until it has ended. A "
        "server calls profile(rank, name, text) with the workers' commands for its profiler.");
  py::class_<PyClient>(m, "ServerClient", "A worker of a job with a parameter server.")
      .def(py::init<>())
      .def_property_readonly("rank", &PyClient::rank)
      .def_property_readonly("num_workers", &PyClient::num_workers)
      .def_property_readonly("num_servers", &PyClient::num_servers)
      .def(
          "init",
          [](PyClient& self, const std::string& key, const NDArrayRef& value) {
            self.init({key}, {value});
          },
          py::arg("key"), py::arg("value"), "Collective: the value of rank 0.")
      .def("init", &PyClient::init, py::arg("keys"), py::arg("values"),
           "Collective: several keys in one call.")
      .def("push", &PyClient::push, py::arg("key"), py::arg("array"), py::arg("priority") = 0)
      .def("pull", &PyClient::pull, py::arg("key"), py::arg("out"), py::arg("priority") = 0)
      .def("pushpull", &PyClient::pushpull, py::arg("key"), py::arg("array"), py::arg("out"),
           py::arg("priority") = 0)
      .def("push_rows", &PyClient::push_rows, py::arg("key"), py::arg("row_ids"), py::arg("rows"),
           py::arg("priority") = 0)
      .def("pull_rows", &PyClient::pull_rows, py::arg("key"), py::arg("row_ids"), py::arg("out"),
           py::arg("priority") = 0)
      .def("set_sync", &PyClient::set_sync, py::arg("sync"),
           "Servers wait for all workers' pushes, or update with each.")
      .def("set_optimizer", without_gil(&store::ServerClient::set_optimizer), py::arg("name"),
           py::arg("json"), py::arg("scope") = "",
           "Collective: servers update values whose keys begin with the scope, \"1:\".")
      .def("update_optimizer", without_gil(&store::ServerClient::update_optimizer), py::arg("json"),
           py::arg("scope") = "", "Change some of the optimizer's numbers; rank 0 sends.")
      .def("set_compression", &PyClient::set_compression, py::arg("type"),
           py::arg("threshold") = 0.5, "Of float32 pushes of this worker.")
      .def("command", without_gil(&store::ServerClient::command), py::arg("head"), py::arg("body"))
      .def("profile_servers", without_gil(&store::ServerClient::profile_servers), py::arg("name"),
           py::arg("text"), "Send a command to the servers' profilers; raises if a server failed.")
      .def("barrier", without_gil(&store::ServerClient::barrier), "Wait for all workers.")
      .def("pushed", without_gil(&store::ServerClient::pushed), py::arg("key"),
           "How many pushes of this rank the servers have taken.")
      .def("report", &PyClient::report, "Counts of this worker and of all servers.")
      .def("save_states", without_gil(&store::ServerClient::save_states), py::arg("path"),
           "Write the optimizer's states; rank 0 does.")
      .def("load_states", without_gil(&store::ServerClient::load_states), py::arg("path"))
      .def("close", &PyClient::close, py::call_guard<GilRelease>(),
           "Leave the job when operations in flight are done.");
}

}  // namespace mxlite::python
