// NCCL for tests: ranks are processes of one host that exchange bytes through shared memory, on the
// threads of their fake streams. As with NCCL, work hangs while a rank is missing, until its
// communicator is aborted. MXLITE_FAKE_NCCL_VERSION changes the version, MXLITE_FAKE_NCCL_REFUSES=n
// makes the n-th all-reduce fail before it begins, MXLITE_FAKE_NCCL_BLOCKS=n makes it not return
// until its communicator, or one that shares its resources, is aborted.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/base/str.h"
#include "cpp/kvstore/comm/reduce.h"
#include "tests/cpp/fake_nccl/mailboxes.h"
#include "tests/cpp/fake_nccl/runtime.h"
#include "tests/cpp/fake_stream.h"

namespace fake_nccl {

std::atomic<int64_t> polls{0};

namespace {

using mxlite::DType;
using mxlite::FakeStream;
using mxlite::ReduceOp;

enum Kind : uint32_t { kAllReduce, kReduce, kReduceScatter, kAllGather, kBroadcast, kMessages };

// This object outlives the handle while work of the stream uses it.
struct Comm {
  Comm(const std::string& name_, int rank, int ranks, const ncclConfig_t& config)
      : name(name_),
        boxes(name_, rank, ranks),
        is_blocking(config.blocking != 0),
        shares(config.splitShare == 1) {}
  const std::string name;
  Mailboxes boxes;
  const bool is_blocking, shares;
  std::shared_ptr<std::atomic<bool>> abort = std::make_shared<std::atomic<bool>>(false);
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::shared_ptr<Comm> part;  // the last communicator that was split from this one
};
using CommRef = std::shared_ptr<Comm>;

thread_local std::string last_error;
thread_local int group_depth = 0;

DType dtype_of(ncclDataType_t type) {
  constexpr DType kTypes[] = {DType::kInt8,    DType::kUInt8,   DType::kInt32,   DType::kUInt32,
                              DType::kInt64,   DType::kUInt64,  DType::kFloat16, DType::kFloat32,
                              DType::kFloat64, DType::kBFloat16};
  return kTypes[type];
}

ReduceOp op_of(ncclRedOp_t op) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin};
  return kOps[op];
}

// A failed exchange is reported asynchronously; the work ends when the communicator is aborted.
bool exchange(Comm& comm, Kind kind, std::vector<Transfer> sends, std::vector<Transfer> receives) {
  const Mailboxes::End end = comm.boxes.exchange(kind, sends, receives, *comm.abort);
  if (end == Mailboxes::End::kDone) return true;
  if (end == Mailboxes::End::kLost) comm.error = ncclRemoteError;
  if (end == Mailboxes::End::kMismatch) comm.error = ncclInvalidUsage;
  while (!*comm.abort) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return false;
}

std::byte* bytes_of(const void* data) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(data));
}

ncclResult_t give(cudaStream_t target, std::function<void()> work) {
  static_cast<FakeStream&>(*reinterpret_cast<mxlite::Stream*>(target)).give(std::move(work));
  return ncclSuccess;
}

// Sends each rank its part of the input; null parts are not sent. Reduces what the others send to
// this rank if it receives a result.
void reduce_parts(Comm& comm, Kind kind, const std::vector<const void*>& parts, void* output,
                  size_t count, DType dtype, ReduceOp op, bool receives_result) {
  const size_t bytes = count * mxlite::dtype_size(dtype);
  const int ranks = comm.boxes.ranks, me = comm.boxes.rank;
  std::vector<std::vector<std::byte>> received(static_cast<size_t>(ranks));
  std::vector<Transfer> sends, receives;
  for (int r = 0; r < ranks; ++r) {
    const void* part = parts[static_cast<size_t>(r)];
    if (r != me && part) sends.push_back({r, bytes_of(part), bytes});
    if (r == me || !receives_result) continue;
    received[static_cast<size_t>(r)].resize(bytes);
    receives.push_back({r, received[static_cast<size_t>(r)].data(), bytes});
  }
  // The output may be the input, so it is written after everything is sent.
  if (!exchange(comm, kind, std::move(sends), std::move(receives)) || !receives_result) return;
  std::vector<const void*> inputs;
  for (int r = 0; r < ranks; ++r)
    inputs.push_back(r == me ? parts[static_cast<size_t>(me)]
                             : received[static_cast<size_t>(r)].data());
  std::vector<std::byte> result(bytes);
  mxlite::reduce_buffers(inputs, result.data(), static_cast<int64_t>(count), dtype, op);
  std::memcpy(output, result.data(), bytes);
}

}  // namespace
}  // namespace fake_nccl

struct ncclComm {
  fake_nccl::CommRef comm;
};

using namespace fake_nccl;

namespace {

// Messages of one group are one operation.
struct Messages {
  CommRef comm;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> sends, receives;
};
thread_local std::vector<Messages> group_messages;

Messages& messages_of(const CommRef& comm, cudaStream_t stream) {
  for (Messages& m : group_messages)
    if (m.comm == comm && m.stream == stream) return m;
  return group_messages.emplace_back(Messages{comm, stream, {}, {}});
}

ncclResult_t join(ncclComm_t* out, const std::string& name, int rank, int ranks,
                  const ncclConfig_t& config) {
  if (rank < 0 || rank >= ranks || ranks > kMaxRanks) return ncclInvalidArgument;
  try {
    *out = new ncclComm{std::make_shared<Comm>(name, rank, ranks, config)};
  } catch (const std::exception& error) {
    last_error = error.what();
    return ncclSystemError;
  }
  return ncclInProgress;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(mxlite::env_int("MXLITE_FAKE_NCCL_VERSION", NCCL_VERSION_CODE));
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError    ? "remote process exited or there was a network error"
         : result == ncclInvalidUsage ? "invalid usage"
         : result == ncclSystemError  ? "unhandled system error"
                                      : "error of the fake NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  const std::string name = mxlite::str("/mxlite-fake-nccl-", getpid(), '-', std::random_device()());
  std::strncpy(id->internal, name.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return join(comm, id.internal, rank, ranks, *config);
}

// All ranks must give the same color, and their rank as the key.
ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
  Comm& comm = *handle->comm;
  if (color != 0 || key != comm.boxes.rank || comm.part) return ncclInvalidArgument;
  const ncclResult_t result = join(part, comm.name + "-part", key, comm.boxes.ranks, *config);
  if (result != ncclInProgress) return result;
  comm.part = (*part)->comm;
  if (comm.shares) comm.part->abort = comm.abort;
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  ++fake_nccl::polls;
  Comm& comm = *handle->comm;
  *result = comm.error;
  const bool is_ready = comm.boxes.all_arrived() && (!comm.part || comm.part->boxes.all_arrived());
  if (*result == ncclSuccess && !is_ready) *result = ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  delete handle;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  *handle->comm->abort = true;
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  for (Messages& m : group_messages)
    give(m.stream, [comm = m.comm, sends = std::move(m.sends), receives = std::move(m.receives)] {
      exchange(*comm, kMessages, sends, receives);
    });
  group_messages.clear();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
  static const int64_t refused = mxlite::env_int("MXLITE_FAKE_NCCL_REFUSES", 0);
  static const int64_t blocked = mxlite::env_int("MXLITE_FAKE_NCCL_BLOCKS", 0);
  static std::atomic<int64_t> calls{0};
  const int64_t call = ++calls;
  if (call == refused) return ncclSystemError;
  if (!handle->comm->is_blocking) return ncclInvalidUsage;  // NCCL would make a thread for the call
  if (call == blocked) {
    const CommRef comm = handle->comm;
    while (!*comm->abort) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ncclInternalError;
  }
  return give(stream, [=, comm = handle->comm] {
    const std::vector<const void*> parts(static_cast<size_t>(comm->boxes.ranks), input);
    reduce_parts(*comm, kAllReduce, parts, output, count, dtype_of(type), op_of(op), true);
  });
}
ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t handle, cudaStream_t stream) {
  return give(stream, [=, comm = handle->comm] {
    std::vector<const void*> parts(static_cast<size_t>(comm->boxes.ranks));
    parts[static_cast<size_t>(root)] = input;
    reduce_parts(*comm, kReduce, parts, output, count, dtype_of(type), op_of(op),
                 comm->boxes.rank == root);
  });
}
ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
  return give(stream, [=, comm = handle->comm] {
    const DType dtype = dtype_of(type);
    std::vector<const void*> parts;
    for (int r = 0; r < comm->boxes.ranks; ++r)
      parts.push_back(bytes_of(input) + static_cast<size_t>(r) * count * mxlite::dtype_size(dtype));
    reduce_parts(*comm, kReduceScatter, parts, output, count, dtype, op_of(op), true);
  });
}
ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
  return give(stream, [=, comm = handle->comm] {
    const size_t bytes = count * mxlite::dtype_size(dtype_of(type));
    const int me = comm->boxes.rank;
    std::memmove(bytes_of(output) + static_cast<size_t>(me) * bytes, input, bytes);
    std::vector<Transfer> sends, receives;
    for (int r = 0; r < comm->boxes.ranks; ++r) {
      if (r == me) continue;
      sends.push_back({r, bytes_of(output) + static_cast<size_t>(me) * bytes, bytes});
      receives.push_back({r, bytes_of(output) + static_cast<size_t>(r) * bytes, bytes});
    }
    exchange(*comm, kAllGather, std::move(sends), std::move(receives));
  });
}
ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t handle, cudaStream_t stream) {
  return give(stream, [=, comm = handle->comm] {
    const size_t bytes = count * mxlite::dtype_size(dtype_of(type));
    std::vector<Transfer> sends, receives;
    if (comm->boxes.rank != root) receives.push_back({root, bytes_of(output), bytes});
    if (comm->boxes.rank == root)
      for (int r = 0; r < comm->boxes.ranks; ++r)
        if (r != root) sends.push_back({r, bytes_of(input), bytes});
    if (comm->boxes.rank == root && input != output) std::memcpy(output, input, bytes);
    exchange(*comm, kBroadcast, std::move(sends), std::move(receives));
  });
}
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
  if (group_depth == 0) return ncclInvalidUsage;  // could wait for a peer that waits for this rank
  const size_t bytes = count * mxlite::dtype_size(dtype_of(type));
  messages_of(handle->comm, stream).sends.push_back({peer, bytes_of(data), bytes});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  if (group_depth == 0) return ncclInvalidUsage;
  const size_t bytes = count * mxlite::dtype_size(dtype_of(type));
  messages_of(handle->comm, stream).receives.push_back({peer, bytes_of(data), bytes});
  return ncclSuccess;
}
