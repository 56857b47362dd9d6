#include "cpp/kvstore/horovod/operation_runner.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/kvstore/comm/reduce.h"

namespace mxlite::horovod {
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

const char* transport_activity(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "MPI_ALLREDUCE";
    case CollectiveKind::kAllGather:
      return "MPI_ALLGATHER";
    case CollectiveKind::kBroadcast:
      return "MPI_BCAST";
    case CollectiveKind::kAllToAll:
      return "MPI_ALLTOALL";
    case CollectiveKind::kReduceScatter:
      return "MPI_REDUCESCATTER";
    case CollectiveKind::kReduce:
      return "MPI_REDUCE";
    default:
      return "MPI_BARRIER";
  }
}

NDArrayRef rows_like(const Request& request, int64_t rows) {
  Shape shape{std::span<const int64_t>(request.shape)};
  shape[0] = rows;
  return NDArray::empty({shape, request.dtype}, Device{});
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

OperationRunner::~OperationRunner() {
  if (buffer_.data) cpu_allocator().free(buffer_);
}

std::byte* OperationRunner::buffer(size_t bytes) {
  if (buffer_.bytes < bytes) {
    if (buffer_.data) cpu_allocator().free(buffer_);
    buffer_ = {};
    buffer_ = cpu_allocator().allocate(bytes);
  }
  return static_cast<std::byte*>(buffer_.data);
}

void OperationRunner::run(std::span<const OperationRef> operations,
                          std::span<const Request> requests, Communicator& group,
                          std::span<const int> members) {
  NamedOperation& first = *operations[0];
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
  group.describe(std::move(what));
  if (kind == CollectiveKind::kAllReduce && operations.size() > 1)
    return all_reduce_fused(operations, group);
  const Activity inner(timeline_, operations, transport_activity(kind));
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce(first, group);
    case CollectiveKind::kReduce:
      return reduce(first, group, members);
    case CollectiveKind::kAllGather:
      if (first.request().same_shapes) return run_blocks(first, group);
      return all_gather(first, requests, group);
    case CollectiveKind::kBroadcast:
      return broadcast(first, group, members);
    case CollectiveKind::kAllToAll:
      if (first.request().same_shapes) return run_blocks(first, group);
      return all_to_all(first, requests, group);
    case CollectiveKind::kReduceScatter:
      if (first.request().same_shapes) return run_blocks(first, group);
      return reduce_scatter(first, group);
    case CollectiveKind::kBarrier:
      return group.barrier();
    case CollectiveKind::kAddSet:
    case CollectiveKind::kRemoveSet:
    case CollectiveKind::kMessage:
      break;
  }
  MX_ASSERT(false);
}

void OperationRunner::all_reduce(NamedOperation& o, Communicator& group) {
  const Request& r = o.request();
  const void* input = o.input->data();
  void* output = o.output->data();
  const int64_t count = r.elements();
  if (r.prescale != 1 && input != output) {
    std::memcpy(output, input, r.bytes());
    input = output;
  }
  scale_buffer(output, r.prescale == 1 ? 0 : count, r.dtype, r.prescale);
  if (count > 0) group.all_reduce(input, output, count, r.dtype, r.op);
  scale_buffer(output, count, r.dtype, r.postscale);
}

void OperationRunner::all_reduce_fused(std::span<const OperationRef> operations,
                                       Communicator& group) {
  const Request& first = operations[0]->request();
  size_t total = 0;
  for (const auto& o : operations) total += padded(o->asked->bytes);
  std::byte* all = nullptr;
  {
    const Activity activity(timeline_, operations, "INIT_FUSION_BUFFER");
    all = buffer(total);
  }
  {
    const Activity activity(timeline_, operations, "MEMCPY_IN_FUSION_BUFFER");
    std::byte* to = all;
    for (const auto& o : operations) {
      const size_t bytes = o->asked->bytes;
      std::memcpy(to, o->input->data(), bytes);
      std::memset(to + bytes, 0, padded(bytes) - bytes);
      to += padded(bytes);
    }
  }
  const auto count = static_cast<int64_t>(total / dtype_size(first.dtype));
  {
    const Activity activity(timeline_, operations, transport_activity(first.kind));
    scale_buffer(all, count, first.dtype, first.prescale);
    group.all_reduce(all, all, count, first.dtype, first.op);
    scale_buffer(all, count, first.dtype, first.postscale);
  }
  const Activity activity(timeline_, operations, "MEMCPY_OUT_FUSION_BUFFER");
  const std::byte* from = all;
  for (const auto& o : operations) {
    std::memcpy(o->output->data(), from, o->asked->bytes);
    from += padded(o->asked->bytes);
  }
}

void OperationRunner::all_gather(NamedOperation& o, std::span<const Request> requests,
                                 Communicator& group) {
  std::vector<size_t> bytes;
  int64_t rows = 0;
  for (const Request& r : requests) {
    bytes.push_back(r.bytes());
    rows += r.shape[0];
  }
  o.output = rows_like(o.request(), rows);
  group.all_gather(o.input->data(), o.output->data(), bytes);
}

void OperationRunner::broadcast(NamedOperation& o, Communicator& group,
                                std::span<const int> members) {
  const auto root = std::find(members.begin(), members.end(), o.request().root);
  const int place = static_cast<int>(root - members.begin());
  const size_t bytes = o.asked->bytes;
  if (group.rank() == place && o.input->data() != o.output->data())
    std::memcpy(o.output->data(), o.input->data(), bytes);
  group.broadcast(o.output->data(), bytes, place);
}

void OperationRunner::all_to_all(NamedOperation& o, std::span<const Request> requests,
                                 Communicator& group) {
  const size_t row = row_bytes(o.request());
  std::vector<size_t> send, receive;
  o.received_splits.clear();
  for (size_t r = 0; r < requests.size(); ++r) {
    send.push_back(static_cast<size_t>(o.request().splits[r]) * row);
    o.received_splits.push_back(requests[r].splits[static_cast<size_t>(group.rank())]);
    receive.push_back(static_cast<size_t>(o.received_splits.back()) * row);
  }
  o.output = rows_like(
      o.request(), std::accumulate(o.received_splits.begin(), o.received_splits.end(), int64_t{0}));
  group.all_to_all(o.input->data(), send, o.output->data(), receive);
}

void OperationRunner::reduce_scatter(NamedOperation& o, Communicator& group) {
  const Request& r = o.request();
  const std::vector<int64_t> rows = rows_by_rank(r.shape[0], group.size());
  const auto row = static_cast<int64_t>(row_bytes(r) / dtype_size(r.dtype));
  std::vector<int64_t> counts;
  for (const int64_t n : rows) counts.push_back(n * row);
  o.output = rows_like(r, rows[static_cast<size_t>(group.rank())]);
  const void* input = o.input->data();
  if (r.prescale != 1) {
    std::byte* scaled = buffer(r.bytes());
    std::memcpy(scaled, input, r.bytes());
    scale_buffer(scaled, r.elements(), r.dtype, r.prescale);
    input = scaled;
  }
  group.reduce_scatter(input, o.output->data(), counts, r.dtype, r.op);
  scale_buffer(o.output->data(), counts[static_cast<size_t>(group.rank())], r.dtype, r.postscale);
}

void OperationRunner::reduce(NamedOperation& o, Communicator& group, std::span<const int> members) {
  all_reduce(o, group);
  const auto root = std::find(members.begin(), members.end(), o.request().root);
  if (group.rank() != static_cast<int>(root - members.begin()))
    std::memset(o.output->data(), 0, o.asked->bytes);
}

void OperationRunner::run_blocks(NamedOperation& o, Communicator& group) {
  const Request& r = o.request();
  const auto ranks = static_cast<size_t>(group.size());
  if (r.elements() == 0) return;
  const void* input = o.input->data();
  void* output = o.output->data();
  if (r.kind == CollectiveKind::kAllGather)
    return group.all_gather(input, output, std::vector<size_t>(ranks, o.asked->bytes));
  if (r.kind == CollectiveKind::kAllToAll) {
    const std::vector<size_t> bytes(ranks, o.asked->bytes / ranks);
    return group.all_to_all(input, bytes, output, bytes);
  }
  const std::vector<int64_t> counts(ranks, r.elements() / group.size());
  group.reduce_scatter(input, output, counts, r.dtype, r.op);
  scale_buffer(output, counts[0], r.dtype, r.postscale);
}

void OperationRunner::message(NamedOperation* o, Communicator& group, int from, int to) {
  const ProfileScope profile(collective_name(CollectiveKind::kMessage), ProfileKind::kComm);
  std::vector<size_t> send(static_cast<size_t>(group.size())), receive = send;
  std::byte nothing{};  // ranks without data still give an address
  const void* input = &nothing;
  void* output = &nothing;
  if (o && group.rank() == from) {
    send[static_cast<size_t>(to)] = o->asked->bytes;
    input = o->input->data();
    // The output of the sender is a marker without information.
    std::memset(o->output->data(), 0, o->output->spec().bytes());
  } else if (o) {
    receive[static_cast<size_t>(from)] = o->asked->bytes;
    output = o->output->data();
  }
  group.all_to_all(input, send, output, receive);
}

}  // namespace mxlite::horovod
