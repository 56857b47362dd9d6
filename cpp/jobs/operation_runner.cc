#include "cpp/jobs/operation_runner.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kAlignment = 64;

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Time in seconds to wait for the heartbeat to report which rank is lost, because NCCL may fail
// earlier.
constexpr double kGrace = 3;
constexpr auto kPause = std::chrono::milliseconds(20);

// Marks an activity on the timeline for all tensors of a response.
class Activity {
 public:
  Activity(Timeline& timeline, std::span<const OperationRef> operations, const std::string& name)
      : timeline_(timeline), operations_(operations), runs_(timeline.runs() && !name.empty()) {
    if (runs_)
      for (const auto& o : operations_) timeline_.begin(o->request().name, name);
  }
  ~Activity() {
    if (runs_)
      for (const auto& o : operations_) timeline_.end(o->request().name);
  }
  Activity& operator=(Activity&&) = delete;  // neither copied nor moved

 private:
  Timeline& timeline_;
  std::span<const OperationRef> operations_;
  bool runs_;
};

// Returns Horovod's name for the kind of transfer, or an empty text if no timeline is recorded.
std::string transport_activity(const Timeline& timeline, const Carrier& carrier,
                               CollectiveKind kind) {
  if (!timeline.runs()) return {};
  return str(carrier.memory.on_gpu() ? "NCCL_" : "MPI_",
             kind == CollectiveKind::kBroadcast ? "BCAST" : activity_name(kind));
}

// Aborts the group. After the call, no work of the group uses the group's arrays.
void end_gpu_work(DeviceCommunicator& gpus, const char* reason) noexcept {
  gpus.fail_all(reason);
  try {
    gpus.stream().synchronize();
  } catch (const std::exception&) {  // a GPU that reports an error no longer uses the arrays
  }
}

NDArrayRef rows_like(const Request& request, int64_t rows, OperandMemory& memory) {
  Shape shape{std::span<const int64_t>(request.shape)};
  shape[0] = rows;
  return memory.allocate({shape, request.dtype});
}

size_t row_bytes(const Request& request) {
  size_t bytes = dtype_size(request.dtype);
  for (size_t i = 1; i < request.shape.size(); ++i) bytes *= static_cast<size_t>(request.shape[i]);
  return bytes;
}

}  // namespace

std::vector<int64_t> rows_by_rank(int64_t rows, int ranks) {
  std::vector<int64_t> counts(static_cast<size_t>(ranks), rows / ranks);
  for (int64_t r = 0; r < rows % ranks; ++r) ++counts[static_cast<size_t>(r)];
  return counts;
}

void OperationRunner::run(std::vector<OperationRef>& operations,
                          std::span<const Request> requests) {
  const auto begin = Clock::now();
  const Request& first = operations[0]->request();
  const CallChannel channel = operations[0]->channel;
  const ProcessSet& set = *sets_.find(first.set);
  const bool on_gpus = first.device >= 0;
  size_t bytes = 0;
  for (const auto& o : operations) bytes += o->asked->bytes;
  DeviceCommunicator* gpus = nullptr;
  try {
    std::string problem;
    if (on_gpus) gpus = gpu_group(first.set, problem);
    if (!problem.empty()) {
      problem = str(collective_name(first.kind), " of '", first.name, "': ", problem);
      notify(operations, communicator_error(problem.c_str()));
      return operations.clear();
    }
    std::optional<GpuMemory> gpu_memory;
    if (gpus) gpu_memory.emplace(*gpus).wait_for_allocations(StreamKind::kCopyIn);
    if (gpus && std::any_of(operations.begin(), operations.end(),
                            [](const OperationRef& o) { return o->fresh_in_compute; }))
      gpu_memory->wait_for_allocations(StreamKind::kCompute);
    const Carrier carrier = gpus ? Carrier{*gpus, *gpu_memory} : Carrier{*set.group, host_memory_};
    if (channel.is_message()) {
      carrier.group.describe(first.name);
      message(operations[0].get(), carrier, set.place_of(channel.from), set.place_of(channel.to));
    } else {
      run_in(carrier, operations, requests, set.ranks);
    }
    ++counts_.calls;
    counts_.tensors += operations.size();
    if (on_gpus) counts_.nccl_tensors += operations.size();
    counts_.bytes += bytes;
    counts_.collective_ns += static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
    if (gpus)
      gpus->when_done([operations](std::exception_ptr error) { notify(operations, error); });
    else
      notify(operations, nullptr);
  } catch (const std::exception& e) {
    if (gpus) end_gpu_work(*gpus, e.what());
    notify(operations, communicator_error(e.what()));
    throw;
  }
  operations.clear();
}

void OperationRunner::attend_message(const CallChannel& channel) {
  const ProcessSet& set = *sets_.find(channel.set);
  set.group->describe(str("message from rank ", channel.from, " to rank ", channel.to));
  message(nullptr, {*set.group, host_memory_}, set.place_of(channel.from),
          set.place_of(channel.to));
}

int OperationRunner::choose_gpu(int index) {
  int chosen = -1;
  return gpu_.compare_exchange_strong(chosen, index) ? index : chosen;
}

DeviceCommunicator* OperationRunner::gpu_group(int set, std::string& problem) {
  const auto [place, fresh] = gpu_groups_.try_emplace(set);
  GpuGroup& group = place->second;
  if (fresh) {
    const ProcessSet& processes = *sets_.find(set);
    const DeviceRank me{processes.group->rank(), processes.group->size(), gpu_.load(),
                        processes.ranks, [this] { control_.look(); }};
    group.communicator = make_device_communicator(*processes.group, me, group.problem);
  }
  problem = group.problem;
  return group.communicator.get();
}

bool OperationRunner::gpus_busy() const {
  for (const auto& [set, group] : gpu_groups_)
    if (group.communicator && group.communicator->busy()) return true;
  return false;
}

void OperationRunner::look_at_gpus() {
  try {
    for (const auto& [set, group] : gpu_groups_)
      if (group.communicator) group.communicator->look();
  } catch (const std::exception&) {
    for (const Deadline grace(kGrace); !grace.over(); std::this_thread::sleep_for(kPause))
      control_.look();
    throw;
  }
}

void OperationRunner::fail_all(const char* reason) noexcept {
  for (const auto& [set, group] : gpu_groups_)
    if (group.communicator) group.communicator->fail_all(reason);
}

void OperationRunner::run_in(const Carrier& carrier, std::span<const OperationRef> operations,
                             std::span<const Request> requests, std::span<const int> members) {
  Operation& first = *operations[0];
  const CollectiveKind kind = first.request().kind;
  const Activity outer(timeline_, operations, timeline_.runs() ? activity_name(kind) : "");
  const ProfileScope profile(collective_name(kind), ProfileKind::kComm);
  std::string what = first.request().name;
  if (operations.size() > 1) what += " and " + std::to_string(operations.size() - 1) + " more";
  carrier.group.describe(std::move(what));
  if (kind == CollectiveKind::kAllReduce && operations.size() > 1)
    return all_reduce_fused(operations, carrier);
  const Activity inner(timeline_, operations, transport_activity(timeline_, carrier, kind));
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce(first, carrier);
    case CollectiveKind::kReduce:
      return reduce(first, carrier, members);
    case CollectiveKind::kAllGather:
      if (first.request().same_shapes) return run_blocks(first, carrier);
      return all_gather(first, requests, carrier);
    case CollectiveKind::kBroadcast:
      return broadcast(first, carrier, members);
    case CollectiveKind::kAllToAll:
      if (first.request().same_shapes) return run_blocks(first, carrier);
      return all_to_all(first, requests, carrier);
    case CollectiveKind::kReduceScatter:
      if (first.request().same_shapes) return run_blocks(first, carrier);
      return reduce_scatter(first, carrier);
    case CollectiveKind::kBarrier:
      return carrier.group.barrier();
    case CollectiveKind::kAddSet:
    case CollectiveKind::kRemoveSet:
    case CollectiveKind::kMessage:
      break;
  }
  MX_ASSERT(false);
}

void OperationRunner::all_reduce(Operation& o, const Carrier& carrier) {
  const Request& r = o.request();
  const void* input = o.input->data();
  void* output = o.output->data();
  const int64_t count = r.elements();
  if (r.prescale != 1 && input != output) {
    carrier.memory.copy(output, input, r.bytes());
    input = output;
  }
  carrier.memory.scale(output, count, r.dtype, r.prescale);
  if (count > 0) carrier.group.all_reduce(input, output, count, r.dtype, r.op);
  carrier.memory.scale(output, count, r.dtype, r.postscale);
}

void OperationRunner::all_reduce_fused(std::span<const OperationRef> operations,
                                       const Carrier& carrier) {
  const Request& first = operations[0]->request();
  size_t total = 0;
  for (const auto& o : operations) total += padded(o->asked->bytes);
  std::byte* all = nullptr;
  {
    const Activity activity(timeline_, operations, "INIT_FUSION_BUFFER");
    all = carrier.memory.buffer(total);
  }
  {
    const Activity activity(timeline_, operations, "MEMCPY_IN_FUSION_BUFFER");
    std::byte* to = all;
    for (const auto& o : operations) {
      const size_t bytes = o->asked->bytes;
      carrier.memory.copy(to, o->input->data(), bytes);
      carrier.memory.clear(to + bytes, padded(bytes) - bytes);
      to += padded(bytes);
    }
  }
  const auto count = static_cast<int64_t>(total / dtype_size(first.dtype));
  {
    const Activity activity(timeline_, operations,
                            transport_activity(timeline_, carrier, first.kind));
    carrier.memory.scale(all, count, first.dtype, first.prescale);
    carrier.group.all_reduce(all, all, count, first.dtype, first.op);
    carrier.memory.scale(all, count, first.dtype, first.postscale);
  }
  const Activity activity(timeline_, operations, "MEMCPY_OUT_FUSION_BUFFER");
  const std::byte* from = all;
  for (const auto& o : operations) {
    carrier.memory.copy(o->output->data(), from, o->asked->bytes);
    from += padded(o->asked->bytes);
  }
}

void OperationRunner::all_gather(Operation& o, std::span<const Request> requests,
                                 const Carrier& carrier) {
  std::vector<size_t> bytes;
  int64_t rows = 0;
  for (const Request& r : requests) {
    bytes.push_back(r.bytes());
    rows += r.shape[0];
  }
  o.output = rows_like(o.request(), rows, carrier.memory);
  carrier.group.all_gather(o.input->data(), o.output->data(), bytes);
}

void OperationRunner::broadcast(Operation& o, const Carrier& carrier,
                                std::span<const int> members) {
  const auto root = std::find(members.begin(), members.end(), o.request().root);
  const int place = static_cast<int>(root - members.begin());
  const size_t bytes = o.asked->bytes;
  if (carrier.group.rank() == place && o.input->data() != o.output->data())
    carrier.memory.copy(o.output->data(), o.input->data(), bytes);
  carrier.group.broadcast(o.output->data(), bytes, place);
}

void OperationRunner::all_to_all(Operation& o, std::span<const Request> requests,
                                 const Carrier& carrier) {
  const size_t row = row_bytes(o.request());
  std::vector<size_t> send, receive;
  o.received_splits.clear();
  for (size_t r = 0; r < requests.size(); ++r) {
    send.push_back(static_cast<size_t>(o.request().splits[r]) * row);
    o.received_splits.push_back(requests[r].splits[static_cast<size_t>(carrier.group.rank())]);
    receive.push_back(static_cast<size_t>(o.received_splits.back()) * row);
  }
  o.output = rows_like(
      o.request(), std::accumulate(o.received_splits.begin(), o.received_splits.end(), int64_t{0}),
      carrier.memory);
  carrier.group.all_to_all(o.input->data(), send, o.output->data(), receive);
}

void OperationRunner::reduce_scatter(Operation& o, const Carrier& carrier) {
  const Request& r = o.request();
  const std::vector<int64_t> rows = rows_by_rank(r.shape[0], carrier.group.size());
  const auto row = static_cast<int64_t>(row_bytes(r) / dtype_size(r.dtype));
  std::vector<int64_t> counts;
  for (const int64_t n : rows) counts.push_back(n * row);
  o.output = rows_like(r, rows[static_cast<size_t>(carrier.group.rank())], carrier.memory);
  const void* input = o.input->data();
  if (r.prescale != 1) {
    std::byte* scaled = carrier.memory.buffer(r.bytes());
    carrier.memory.copy(scaled, input, r.bytes());
    carrier.memory.scale(scaled, r.elements(), r.dtype, r.prescale);
    input = scaled;
  }
  carrier.group.reduce_scatter(input, o.output->data(), counts, r.dtype, r.op);
  carrier.memory.scale(o.output->data(), counts[static_cast<size_t>(carrier.group.rank())], r.dtype,
                       r.postscale);
}

void OperationRunner::reduce(Operation& o, const Carrier& carrier, std::span<const int> members) {
  all_reduce(o, carrier);
  const auto root = std::find(members.begin(), members.end(), o.request().root);
  if (carrier.group.rank() != static_cast<int>(root - members.begin()))
    carrier.memory.clear(o.output->data(), o.asked->bytes);
}

void OperationRunner::run_blocks(Operation& o, const Carrier& carrier) {
  const Request& r = o.request();
  const auto ranks = static_cast<size_t>(carrier.group.size());
  if (r.elements() == 0) return;
  const void* input = o.input->data();
  void* output = o.output->data();
  if (r.kind == CollectiveKind::kAllGather)
    return carrier.group.all_gather(input, output, std::vector<size_t>(ranks, o.asked->bytes));
  if (r.kind == CollectiveKind::kAllToAll) {
    const std::vector<size_t> bytes(ranks, o.asked->bytes / ranks);
    return carrier.group.all_to_all(input, bytes, output, bytes);
  }
  const std::vector<int64_t> counts(ranks, r.elements() / carrier.group.size());
  carrier.group.reduce_scatter(input, output, counts, r.dtype, r.op);
  carrier.memory.scale(output, counts[0], r.dtype, r.postscale);
}

void OperationRunner::message(Operation* o, const Carrier& carrier, int from, int to) {
  const ProfileScope profile(collective_name(CollectiveKind::kMessage), ProfileKind::kComm);
  std::vector<size_t> send(static_cast<size_t>(carrier.group.size())), receive = send;
  std::byte nothing{};  // pointers must be valid even if a rank sends or receives nothing
  const void* input = &nothing;
  void* output = &nothing;
  if (o && carrier.group.rank() == from) {
    send[static_cast<size_t>(to)] = o->asked->bytes;
    input = o->input->data();
    // The sender's output only shows that the message was sent. Its values have no meaning.
    carrier.memory.clear(o->output->data(), o->output->spec().bytes());
  } else if (o) {
    receive[static_cast<size_t>(from)] = o->asked->bytes;
    output = o->output->data();
  }
  carrier.group.all_to_all(input, send, output, receive);
}

}  // namespace mxlite::jobs
