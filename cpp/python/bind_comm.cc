// Distributed jobs, for mxlite.horovod and the key-value stores. Provides named collectives on the
// communication thread, and a communicator without that thread for benchmarks.
#include <pybind11/stl.h>

#include <numeric>

#include "cpp/autograd/gradient_order.h"
#include "cpp/core/host_memory.h"
#include "cpp/graph/run/program_segments.h"
#include "cpp/horovod/named_operations.h"
#include "cpp/jobs/collective_task.h"
#include "cpp/jobs/comm_thread.h"
#include "cpp/jobs/job_processes.h"
#include "cpp/kvstore/comm/descriptors.h"
#include "cpp/kvstore/comm/device_communicator.h"
#include "cpp/kvstore/comm/host_job.h"
#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/tcp/rendezvous.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"

namespace mxlite::python {

using namespace jobs;

namespace {

template <class T>
T option(const py::dict& options, const char* name, T fallback) {
  return options.contains(name) ? options[name].cast<T>() : fallback;
}

JobOptions job_options(const py::dict& d) {
  JobOptions o;
  o.version = option<std::string>(d, "version", "");
  o.settings.fusion_bytes = option(d, "fusion_bytes", o.settings.fusion_bytes);
  o.settings.cycle_ms = option(d, "cycle_ms", o.settings.cycle_ms);
  o.wait_for_cycle = option(d, "wait_for_cycle", false);
  o.settings.cache_capacity = option(d, "cache_capacity", o.settings.cache_capacity);
  o.stall_warning = option(d, "stall_warning", o.stall_warning);
  o.stall_shutdown = option(d, "stall_shutdown", o.stall_shutdown);
  o.timeline = option<std::string>(d, "timeline", "");
  o.timeline_marks_cycles = option(d, "timeline_marks_cycles", false);
  o.process_sets = option(d, "process_sets", o.process_sets);
  return o;
}

py::dict info() {
  const auto job = CommThread::get().running_job();
  const Topology& t = job->topology;
  return py::dict(py::arg("rank") = job->rank, py::arg("size") = job->size,
                  py::arg("local_rank") = t.local_rank, py::arg("local_size") = t.local_size,
                  py::arg("cross_rank") = t.cross_rank, py::arg("cross_size") = t.cross_size,
                  py::arg("homogeneous") = t.homogeneous, py::arg("backend") = job->backend);
}

py::dict stats() {
  const auto job = CommThread::get().running_job();
  const JobStats s = job->stats();
  const JobSettings& now = job->options.settings;
  return py::dict(py::arg("rounds") = s.rounds, py::arg("responses") = s.responses,
                  py::arg("tensors") = s.tensors, py::arg("bytes") = s.bytes,
                  py::arg("cache_hits") = s.cache_hits, py::arg("nccl_tensors") = s.nccl_tensors,
                  py::arg("negotiation_ns") = s.negotiation_ns,
                  py::arg("collective_ns") = s.collective_ns,
                  py::arg("fusion_bytes") = now.fusion_bytes, py::arg("cycle_ms") = now.cycle_ms);
}

ReduceOp reduce_op(const std::string& name) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax})
    if (name == reduce_op_name(op)) return op;
  fail(ErrorKind::kValue, "reduce operation must be sum, product, min or max, got '", name, "'");
}

CollectiveKind collective_kind(const std::string& name) {
  for (size_t i = 0; i < kNumCollectiveKinds; ++i)
    if (name == collective_name(static_cast<CollectiveKind>(i)))
      return static_cast<CollectiveKind>(i);
  fail(ErrorKind::kValue, "collective '", name, "' is unknown");
}

// Returns the array. Throws unless it is a contiguous dense array in host memory.
const NDArrayRef& in_host_memory(const NDArrayRef& array, const std::string& name) {
  MX_CHECK(array->contiguous() && !array->is_traced() && !array->is_sparse(), name,
           ": the array must be contiguous and dense");
  MX_CHECK_KIND(is_host_memory(array->device()), ErrorKind::kDevice, name,
                ": the array must be in host memory, got an array on ", array->device());
  return array;
}

CollectiveCall common_terms(const std::string& kind, const py::dict& given) {
  CollectiveCall call;
  Request& terms = call.terms;
  terms.kind = collective_kind(kind);
  for (const auto& [key, value] : given) {
    const auto name = key.cast<std::string_view>();
    if (name == "op")
      terms.op = reduce_op(value.cast<std::string>());
    else if (name == "set")
      terms.set = value.cast<int32_t>();
    else if (name == "root")
      terms.root = value.cast<int32_t>();
    else if (name == "prescale")
      terms.prescale = value.cast<double>();
    else if (name == "postscale")
      terms.postscale = value.cast<double>();
    else if (name == "priority")
      terms.priority = value.cast<int32_t>();
    else if (name == "splits")
      terms.splits = value.cast<std::vector<int64_t>>();
    else if (name == "group")
      terms.group = value.cast<std::string>();
    else if (name == "ordered")
      call.ordered = value.cast<bool>();
    else
      fail(ErrorKind::kValue, kind, ": term '", name, "' is unknown");
  }
  return call;
}

PendingCollective submit(const std::string& kind, std::vector<std::string> names,
                         const py::list& inputs, const py::list& outputs, const py::dict& terms) {
  CollectiveCall call = common_terms(kind, terms);
  call.names = std::move(names);
  call.inputs = inputs.cast<std::vector<NDArrayRef>>();
  call.outputs = outputs.is(inputs) ? call.inputs : outputs.cast<std::vector<NDArrayRef>>();
  return start(call, current_origin());
}

// A communicator whose collectives run on the calling thread. Only benchmarks use it.
class PyCommunicator {
 public:
  explicit PyCommunicator(std::unique_ptr<Communicator> group) : group_(std::move(group)) {}

  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }

  void all_reduce(const NDArrayRef& input, const NDArrayRef& output, const std::string& op) {
    const Use use(input, output);
    MX_CHECK_SHAPE(input->size() == output->size() && input->dtype() == output->dtype(),
                   "all_reduce: input and output must have the same size and dtype, got ",
                   input->spec(), " and ", output->spec());
    group_->all_reduce(input->data(), output->data(), input->size(), input->dtype(), reduce_op(op));
  }
  void all_gather(const NDArrayRef& input, const NDArrayRef& output,
                  const std::vector<int64_t>& counts) {
    const Use use(input, output);
    MX_CHECK_SHAPE(
        static_cast<int>(counts.size()) == size() &&
            std::accumulate(counts.begin(), counts.end(), int64_t{0}) == output->size() &&
            counts[static_cast<size_t>(rank())] == input->size(),
        "all_gather: counts must be the input sizes of all ranks, whose sum is the output's size, "
        "got arrays of ",
        input->size(), " and ", output->size(), " elements on rank ", rank());
    std::vector<size_t> bytes;
    for (const int64_t n : counts)
      bytes.push_back(static_cast<size_t>(n) * dtype_size(input->dtype()));
    group_->all_gather(input->data(), output->data(), bytes);
  }
  void reduce_scatter(const NDArrayRef& input, const NDArrayRef& output,
                      const std::vector<int64_t>& counts, const std::string& op) {
    const Use use(input, output);
    MX_CHECK_SHAPE(static_cast<int>(counts.size()) == size() && input->dtype() == output->dtype() &&
                       std::accumulate(counts.begin(), counts.end(), int64_t{0}) == input->size() &&
                       counts[static_cast<size_t>(rank())] == output->size(),
                   "reduce_scatter: counts must be the output sizes of all ranks, whose sum is the "
                   "input's size, got arrays ",
                   input->spec(), " and ", output->spec(), " on rank ", rank());
    group_->reduce_scatter(input->data(), output->data(), counts, input->dtype(), reduce_op(op));
  }
  void broadcast(const NDArrayRef& array, int root) {
    const Use use(array, array);
    group_->broadcast(array->data(), array->spec().bytes(), root);
  }
  void barrier() {
    const GilRelease released;
    group_->barrier();
  }

 private:
  // Waits for pending tasks on the arrays. This thread may then use their memory until the object
  // is destroyed.
  class Use {
   public:
    Use(const NDArrayRef& input, const NDArrayRef& output)
        : output_(in_host_memory(output, "communicator")) {
      in_host_memory(input, "communicator")->wait_to_read();
      output->wait_to_write();
      released_.emplace();
    }
    ~Use() {
      released_.reset();
      engine::Engine::get().host_wrote(output_->storage()->var());
    }
    Use& operator=(Use&&) = delete;  // neither copied nor moved

   private:
    NDArrayRef output_;
    std::optional<GilRelease> released_;
  };

  std::unique_ptr<Communicator> group_;
};

void bind_communicator(py::module_& m) {
  py::class_<PyCommunicator>(m, "Communicator", "Collectives on the calling thread.")
      .def_property_readonly("rank", &PyCommunicator::rank)
      .def_property_readonly("size", &PyCommunicator::size)
      .def("all_reduce", &PyCommunicator::all_reduce, py::arg("input"), py::arg("output"),
           py::arg("op") = "sum")
      .def("all_gather", &PyCommunicator::all_gather, py::arg("input"), py::arg("output"),
           py::arg("counts"))
      .def("reduce_scatter", &PyCommunicator::reduce_scatter, py::arg("input"), py::arg("output"),
           py::arg("counts"), py::arg("op") = "sum")
      .def("broadcast", &PyCommunicator::broadcast, py::arg("array"), py::arg("root") = 0)
      .def("barrier", &PyCommunicator::barrier);
  m.def(
      "make_communicator",
      [](const std::vector<int>& ranks) {
        const GilRelease released;
        return std::make_unique<PyCommunicator>(make_world({ranks, nullptr}).communicator);
      },
      py::arg("ranks") = std::vector<int>{},
      "Collective: the processes of the job, as a communicator of the calling thread.");
}

}  // namespace

void bind_comm(py::module_& m) {
  bind_communicator(m);
  provide_processes();
  py::class_<PendingCollective>(m, "PendingCollective", "A submitted collective.")
      .def(
          "wait", [](const PendingCollective& c) { c.task->wait(); },
          "Block until it is done; raises its error.")
      .def_property_readonly("outputs",
                             [](const PendingCollective& c) {
                               std::vector<NDArrayRef> outputs;
                               for (const OperationRef& o : c.operations)
                                 outputs.push_back(o->output);
                               return outputs;
                             })
      .def_property_readonly(
          "received_splits",
          [](const PendingCollective& c) { return c.operations[0]->received_splits; })
      .def_property_readonly(
          "set_number", [](const PendingCollective& c) { return c.operations[0]->set_number; });
  m.def(
      "comm_start",
      [](const py::dict& options, const std::vector<int>& ranks, uintptr_t mpi_communicator) {
        CommThread::get().start({ranks, reinterpret_cast<const void*>(mpi_communicator)},
                                job_options(options), horovod::negotiate_by_name);
        const bool several = CommThread::get().running_job()->size > 1;
        graph::set_segments(several);
        autograd::set_notes_order(several);
      },
      py::arg("options"), py::arg("ranks") = std::vector<int>{}, py::arg("mpi_communicator") = 0,
      "Join the job's other processes.");
  m.def(
      "comm_stop",
      [] {
        graph::set_segments(false);
        autograd::set_notes_order(false);
        CommThread::get().stop();
      },
      "Leave the job.");
  m.def(
      "comm_finalize", [] { CommThread::get().finalize(); },
      "End communication; call at the end of the process.");
  m.def(
      "comm_abort", [](const std::string& reason) { CommThread::get().abort(reason); },
      py::arg("reason"), "Make the operations of all ranks fail.");
  m.def(
      "comm_lost",
      [] {
        const auto job = CommThread::get().job();
        return job && job->lost();
      },
      "Whether the job has lost a rank.");
  m.def(
      "comm_obstacle", [] { return mpi_plugin().recovery_obstacle(); },
      "Why the job cannot continue without a lost rank; empty if it can.");
  m.def(
      "comm_rebuild",
      [](const py::dict& d) {
        RebuildRequest r;
        r.processes = option(d, "processes", r.processes);
        r.command = option(d, "command", r.command);
        r.folder = option(d, "folder", r.folder);
        r.hosts = option(d, "hosts", r.hosts);
        r.start_timeout = option(d, "start_timeout", r.start_timeout);
        CommThread::get().rebuild(r);
      },
      py::arg("request"), "Form the job of the ranks that live, and of new processes.");
  m.def(
      "comm_running", [] { return CommThread::get().job() != nullptr; },
      "Between comm_start and comm_stop.");
  m.def("comm_info", &info, "Ranks and sizes of this process.");
  m.def("comm_stats", &stats, "Counts since comm_start.");
  m.def(
      "comm_set_members",
      [](int set) { return CommThread::get().running_job()->process_sets().members(set); },
      py::arg("set"));
  m.def("comm_submit", &submit, py::arg("kind"), py::arg("names"), py::arg("inputs"),
        py::arg("outputs"), py::arg("terms"), "Begin named collectives, in one task.");
  m.def(
      "comm_timeline_start",
      [](const std::string& path, bool mark_cycles) {
        if (CommThread::get().running_job()->rank == 0)
          CommThread::get().timeline().start(path, mark_cycles);
      },
      py::arg("path"), py::arg("mark_cycles") = false);
  m.def("comm_timeline_stop", [] { CommThread::get().timeline().stop(); });
  m.def(
      "comm_launcher",
      [] {
        return launcher() == Launcher::kOpenMpi   ? "openmpi"
               : launcher() == Launcher::kOther   ? "other"
               : launcher() == Launcher::kHostJob ? "host"
                                                  : "none";
      },
      "The launcher that started this process.");
  py::class_<JobMemory>(
      m, "JobMemory",
      "Shared memory in which the processes of a job on one host find each other; "
      "kept by their launcher.")
      .def(py::init<int>(), py::arg("processes"))
      .def_property_readonly("text", &JobMemory::text);
  py::class_<tcp::Rendezvous>(
      m, "JobRendezvous",
      "Server through which the processes of a job over several hosts find each other; kept by "
      "their launcher. Listens on the interface of `host` only; port 0 selects a free one.")
      .def(py::init([](int processes, const std::string& host, int port, const std::string& token) {
             const GilRelease released;  // resolving a host name may block
             return std::make_unique<tcp::Rendezvous>(processes, Address{host, port}, token);
           }),
           py::arg("processes"), py::arg("host"), py::arg("port"), py::arg("token"))
      .def_property_readonly("text", &tcp::Rendezvous::text);
  m.def("reserve_descriptors", &reserve_descriptors, py::arg("who"), py::arg("needed"),
        py::arg("spare"),
        "Raise the soft limit of open files to what is needed, and to some to spare as far as the "
        "hard limit allows; an error that begins with `who` if the hard limit is too low.");
  m.def(
      "copy_streaming",
      [](const NDArrayRef& source, const NDArrayRef& target) {
        MX_CHECK_SHAPE(in_host_memory(source, "copy_streaming")->spec() ==
                           in_host_memory(target, "copy_streaming")->spec(),
                       "copy_streaming: source and target must have the same shape and dtype, got ",
                       source->spec(), " and ", target->spec());
        source->wait_to_read();
        target->wait_to_write();
        const GilRelease released;
        copy_streaming(target->data(), source->data(), source->spec().bytes());
        engine::Engine::get().host_wrote(target->storage()->var());
      },
      py::arg("source"), py::arg("target"),
      "Copy on the calling thread, bypassing the caches, to measure memory bandwidth.");
  m.def(
      "comm_place",
      [](const NDArrayRef& array) -> std::optional<std::pair<std::string, int>> {
        Device place = array->device();
        if (const auto job = CommThread::get().job())
          place = job->place_of(place, array->dtype());
        else if (!is_host_memory(place))
          place = {DeviceType::kPinned, 0};
        if (array->contiguous() && place == array->device()) return std::nullopt;
        return std::pair<std::string, int>(device_type_name(place.type), place.index);
      },
      py::arg("array"),
      "Where collectives take the array, as device type and number; None if they take it as it "
      "is.");
  m.def(
      "comm_empty",
      [](const NDArrayRef& like) {
        return NDArray::empty(like->spec(), like->device(), StreamKind::kCopyIn);
      },
      py::arg("like"), "A new array for the result of a collective, not initialized.");
  m.def(
      "nccl_version",
      [] {
        DeviceBackend* const backend = device_backend();
        return backend ? backend->version() : 0;
      },
      "Version of NCCL as one number (22809 for 2.28.9), 0 without NCCL or a GPU.");
  m.def("mpi_built", &mpi_built, "Whether libmxlite_mpi.so is part of this build.");
  m.def(
      "mpi_version", [] { return mpi_plugin().library_version(); }, "Version of the MPI library.");
  m.def("mpi_threads_supported", [] { return mpi_plugin().threads_supported(); });
}

}  // namespace mxlite::python
