#include "cpp/kvstore/comm/mpi/mpi_communicator.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/failure_text.h"
#include "cpp/kvstore/comm/mpi/ulfm.h"

namespace mxlite::mpi {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 30;   // MPI's counts are of type int
constexpr int64_t kHalfPiece = int64_t{1} << 20;  // 16-bit floats that are converted at a time

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return MPI_FLOAT;
    case DType::kFloat64:
      return MPI_DOUBLE;
    case DType::kInt8:
      return MPI_INT8_T;
    case DType::kInt16:
      return MPI_INT16_T;
    case DType::kInt32:
      return MPI_INT32_T;
    case DType::kInt64:
      return MPI_INT64_T;
    case DType::kBool:
    case DType::kUInt8:
      return MPI_UINT8_T;
    case DType::kUInt16:
      return MPI_UINT16_T;
    case DType::kUInt32:
      return MPI_UINT32_T;
    case DType::kUInt64:
      return MPI_UINT64_T;
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  fail(ErrorKind::kDType, "mpi: dtype must be a type of MPI, got ", dtype_name(dtype));
}

MPI_Op mpi_op(ReduceOp op, DType dtype) {
  const bool logical = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return logical ? MPI_MAX : MPI_SUM;
    case ReduceOp::kProduct:
      return logical ? MPI_MIN : MPI_PROD;
    case ReduceOp::kMin:
      return MPI_MIN;
    case ReduceOp::kMax:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

// Returns whether MPI accepts GPU memory in messages.
bool reads_gpu_memory() {
  static const bool reads = [] {
    const int64_t wanted = env_int("MXLITE_CUDA_AWARE_MPI", -1);
    if (wanted >= 0) return wanted != 0;
    // The function is looked up at run time, because some MPI libraries lack it.
    const auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
    return query && query() != 0;
  }();
  return reads;
}

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(OwnedComm comm)
      : comm_(std::move(comm)), thread_(std::this_thread::get_id()) {
    MX_MPI(MPI_Comm_rank(comm_.get(), &rank_));
    MX_MPI(MPI_Comm_size(comm_.get(), &size_));
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "mpi"; }
  void describe(std::string what) override { what_ = std::move(what); }
  void fail_all(const char* reason) noexcept override {
    {
      std::lock_guard lock(mutex_);
      failure_.set(reason);
    }
    if (std::this_thread::get_id() == thread_) ulfm::revoke(comm_.get());
  }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    begin("all_reduce");
    if (input != output)
      std::memmove(output, input, static_cast<size_t>(count) * dtype_size(dtype));
    if (is_half(dtype)) return all_reduce_half(output, count, dtype, op);
    reduce_in_place(output, count, dtype, op);
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const int64_t before = std::accumulate(counts.begin(), counts.begin() + rank_, int64_t{0});
    const size_t width = dtype_size(dtype);
    std::vector<std::byte> all(static_cast<size_t>(total) * width);
    all_reduce(input, all.data(), total, dtype, op);
    std::memcpy(output, all.data() + static_cast<size_t>(before) * width,
                static_cast<size_t>(counts[static_cast<size_t>(rank_)]) * width);
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override;
  void broadcast(void* data, size_t bytes, int root) override {
    begin("broadcast");
    broadcast_pieces(data, bytes, root);
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override;
  bool takes_gpu_memory() const override { return reads_gpu_memory(); }
  void barrier() override {
    begin("barrier");
    MPI_Request request;
    MX_MPI(MPI_Ibarrier(comm_.get(), &request));
    finish({&request, 1});
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    begin("split");
    OwnedComm group = mpi::split(comm_.get(), color, key);
    if (group.get() == MPI_COMM_NULL) return nullptr;
    return make_mpi_communicator(std::move(group));
  }

 private:
  void begin(const char* call) {
    ++number_;
    call_ = call;
    std::lock_guard lock(mutex_);
    MX_CHECK_KIND(!failure_.is_set(), ErrorKind::kCommunicator, failure_.get());
  }
  void finish(std::span<MPI_Request> requests);
  void broadcast_pieces(void* data, size_t bytes, int root);
  void reduce_in_place(void* data, int64_t count, DType dtype, ReduceOp op);
  void all_reduce_half(void* data, int64_t count, DType dtype, ReduceOp op);

  OwnedComm comm_;
  const std::thread::id thread_;  // the only thread that calls MPI
  int rank_ = 0, size_ = 1;
  uint64_t number_ = 0;
  const char* call_ = "";
  std::string what_;
  std::mutex mutex_;
  FailureText failure_;  // guarded by mutex_
};

void MpiCommunicator::finish(std::span<MPI_Request> requests) {
  const Deadline deadline(comm_timeout());
  for (int polls = 0;; ++polls) {
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS || (!done && polls % 1024 == 0 && deadline.over())) {
      std::string text = str("rank ", rank_, " of ", size_, ": ", call_, " number ", number_);
      if (!what_.empty()) text += str(" (", what_, ")");
      if (code == MPI_SUCCESS) {
        text += str(": waited ", comm_timeout(), " s (MXLITE_COMM_TIMEOUT) for the other hosts");
      } else {
        char message[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        MPI_Error_string(code, message, &length);
        text += str(": a rank is lost: ", message);
      }
      std::lock_guard lock(mutex_);
      failure_.set(text.c_str());  // the request never ends, so later calls must fail
      fail(ErrorKind::kCommunicator, text);
    }
    if (done) return;
    if (polls > 100) sched_yield();
  }
}

void MpiCommunicator::broadcast_pieces(void* data, size_t bytes, int root) {
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    MPI_Request request;
    MX_MPI(MPI_Ibcast(static_cast<char*>(data) + at,
                      static_cast<int>(std::min(kPieceBytes, bytes - at)), MPI_BYTE, root,
                      comm_.get(), &request));
    finish({&request, 1});
  }
}

void MpiCommunicator::reduce_in_place(void* data, int64_t count, DType dtype, ReduceOp op) {
  const size_t width = dtype_size(dtype);
  const auto piece = static_cast<int64_t>(kPieceBytes / width);
  for (int64_t at = 0; at < count; at += piece) {
    MPI_Request request;
    MX_MPI(MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + static_cast<size_t>(at) * width,
                          static_cast<int>(std::min(piece, count - at)), mpi_type(dtype),
                          mpi_op(op, dtype), comm_.get(), &request));
    finish({&request, 1});
  }
}

void MpiCommunicator::all_reduce_half(void* data, int64_t count, DType dtype, ReduceOp op) {
  std::vector<float> wide(static_cast<size_t>(std::min(count, kHalfPiece)));
  const auto reduce = [&](auto* values) {
    for (int64_t at = 0; at < count; at += kHalfPiece) {
      const int64_t n = std::min(kHalfPiece, count - at);
      for (int64_t i = 0; i < n; ++i) wide[static_cast<size_t>(i)] = values[at + i];
      reduce_in_place(wide.data(), n, DType::kFloat32, op);
      for (int64_t i = 0; i < n; ++i) values[at + i] = wide[static_cast<size_t>(i)];
    }
  };
  dtype == DType::kFloat16 ? reduce(static_cast<float16*>(data))
                           : reduce(static_cast<bfloat16*>(data));
}

void MpiCommunicator::all_gather(const void* input, void* output, std::span<const size_t> bytes) {
  begin("all_gather");
  auto* out = static_cast<char*>(output);
  size_t total = 0;
  std::vector<int> counts, places;
  for (const size_t n : bytes) {
    counts.push_back(static_cast<int>(std::min(n, kPieceBytes)));
    places.push_back(static_cast<int>(std::min(total, kPieceBytes)));
    total += n;
  }
  const size_t before = std::accumulate(bytes.begin(), bytes.begin() + rank_, size_t{0});
  const size_t mine = bytes[static_cast<size_t>(rank_)];
  if (mine > 0 && out + before != input) std::memmove(out + before, input, mine);
  if (total <= kPieceBytes) {
    MPI_Request request;
    MX_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, out, counts.data(), places.data(), MPI_BYTE,
                           comm_.get(), &request));
    return finish({&request, 1});
  }
  for (int r = 0; r < size_; out += bytes[static_cast<size_t>(r++)])
    broadcast_pieces(out, bytes[static_cast<size_t>(r)], r);
}

void MpiCommunicator::all_to_all(const void* input, std::span<const size_t> send, void* output,
                                 std::span<const size_t> receive) {
  begin("all_to_all");
  std::vector<MPI_Request> requests;
  const auto each_piece = [&](std::span<const size_t> sizes, auto&& start) {
    size_t place = 0;
    for (int r = 0; r < size_; place += sizes[static_cast<size_t>(r++)])
      for (size_t at = 0; at < sizes[static_cast<size_t>(r)]; at += kPieceBytes)
        start(place + at,
              static_cast<int>(std::min(kPieceBytes, sizes[static_cast<size_t>(r)] - at)), r,
              &requests.emplace_back());
  };
  each_piece(receive, [&](size_t at, int n, int r, MPI_Request* request) {
    MX_MPI(MPI_Irecv(static_cast<char*>(output) + at, n, MPI_BYTE, r, 0, comm_.get(), request));
  });
  each_piece(send, [&](size_t at, int n, int r, MPI_Request* request) {
    MX_MPI(
        MPI_Isend(static_cast<const char*>(input) + at, n, MPI_BYTE, r, 0, comm_.get(), request));
  });
  if (!requests.empty()) finish(requests);
}

std::mutex owned_mutex;
std::set<MPI_Comm>& owned_comms() {  // guarded by owned_mutex; leaked, like the plug-in
  static auto& comms = *new std::set<MPI_Comm>;
  return comms;
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char message[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, message, &length);
  fail(ErrorKind::kCommunicator, call, ": ", message);
}

OwnedComm::OwnedComm(MPI_Comm comm) : comm_(comm) {
  std::lock_guard lock(owned_mutex);
  if (comm != MPI_COMM_NULL) owned_comms().insert(comm);
}

OwnedComm::~OwnedComm() {
  if (comm_ == MPI_COMM_NULL) return;
  {
    std::lock_guard lock(owned_mutex);
    owned_comms().erase(comm_);
  }
  int ended = 1;
  MPI_Finalized(&ended);
  if (!ended) MPI_Comm_free(&comm_);
}

void revoke_all() noexcept {
  std::lock_guard lock(owned_mutex);
  for (const MPI_Comm comm : owned_comms()) ulfm::revoke(comm);
}

OwnedComm duplicate(MPI_Comm comm) {
  MPI_Comm copy;
  MX_MPI(MPI_Comm_dup(comm, &copy));
  OwnedComm owned(copy);
  MX_MPI(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  return owned;
}

OwnedComm split(MPI_Comm comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  MX_MPI(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, &part));
  OwnedComm owned(part);
  if (part != MPI_COMM_NULL) MX_MPI(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
  return owned;
}

std::unique_ptr<Communicator> make_mpi_communicator(OwnedComm comm) {
  return std::make_unique<MpiCommunicator>(std::move(comm));
}

}  // namespace mxlite::mpi
