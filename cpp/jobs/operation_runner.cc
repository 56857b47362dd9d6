#include "cpp/jobs/operation_runner.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kAlignment = 64;

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Marks an activity on the timeline rows of all tensors of a response.
class Activity {
 public:
  Activity(Timeline& timeline, std::span<const OperationRef> operations, const char* name)
      : timeline_(timeline), operations_(operations), runs_(timeline.runs()) {
    if (runs_)
      for (const auto& o : operations_) timeline_.begin(o->request().name, name);
  }
  ~Activity() {
    if (runs_)
      for (const auto& o : operations_) timeline_.end(o->request().name);
  }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  Timeline& timeline_;
  std::span<const OperationRef> operations_;
  bool runs_;
};

const char* transport_activity(const Carrier& carrier, CollectiveKind kind) {
  const bool nccl = carrier.memory.on_gpu();
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return nccl ? "NCCL_ALLREDUCE" : "MPI_ALLREDUCE";
    case CollectiveKind::kAllGather:
      return nccl ? "NCCL_ALLGATHER" : "MPI_ALLGATHER";
    case CollectiveKind::kBroadcast:
      return nccl ? "NCCL_BCAST" : "MPI_BCAST";
    case CollectiveKind::kAllToAll:
      return nccl ? "NCCL_ALLTOALL" : "MPI_ALLTOALL";
    case CollectiveKind::kReduceScatter:
      return nccl ? "NCCL_REDUCESCATTER" : "MPI_REDUCESCATTER";
    case CollectiveKind::kReduce:
      return nccl ? "NCCL_REDUCE" : "MPI_REDUCE";
    default:
      return "MPI_BARRIER";
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

void OperationRunner::run(std::span<const OperationRef> operations,
                          std::span<const Request> requests, const Carrier& carrier,
                          std::span<const int> members) {
  Operation& first = *operations[0];
  const CollectiveKind kind = first.request().kind;
  const Activity outer(timeline_, operations,
                       kind == CollectiveKind::kAllReduce       ? "ALLREDUCE"
                       : kind == CollectiveKind::kAllGather     ? "ALLGATHER"
                       : kind == CollectiveKind::kBroadcast     ? "BROADCAST"
                       : kind == CollectiveKind::kAllToAll      ? "ALLTOALL"
                       : kind == CollectiveKind::kReduceScatter ? "REDUCESCATTER"
                       : kind == CollectiveKind::kReduce        ? "REDUCE"
                                                                : "BARRIER");
  const ProfileScope profile(collective_name(kind), ProfileKind::kComm);
  std::string what = first.request().name;
  if (operations.size() > 1) what += " and " + std::to_string(operations.size() - 1) + " more";
  carrier.group.describe(std::move(what));
  if (kind == CollectiveKind::kAllReduce && operations.size() > 1)
    return all_reduce_fused(operations, carrier);
  const Activity inner(timeline_, operations, transport_activity(carrier, kind));
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
    const Activity activity(timeline_, operations, transport_activity(carrier, first.kind));
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
  std::byte nothing{};  // ranks without data still give an address
  const void* input = &nothing;
  void* output = &nothing;
  if (o && carrier.group.rank() == from) {
    send[static_cast<size_t>(to)] = o->asked->bytes;
    input = o->input->data();
    // The output of the sender is a marker without information.
    carrier.memory.clear(o->output->data(), o->output->spec().bytes());
  } else if (o) {
    receive[static_cast<size_t>(from)] = o->asked->bytes;
    output = o->output->data();
  }
  carrier.group.all_to_all(input, send, output, receive);
}

}  // namespace mxlite::jobs
