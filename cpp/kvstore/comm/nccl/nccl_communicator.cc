#include "cpp/kvstore/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/nccl/call_watch.h"
#include "cpp/kvstore/comm/nccl/completions.h"
#include "cpp/kvstore/comm/nccl/nccl_call.h"

namespace mxlite::nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == DeviceBackend::kIdBytes);

// Note [Two communicators] A rank connects with a non-blocking communicator, because it must be
// able to give up if another rank is lost. For each collective such a communicator makes a thread,
// whose end this thread would have to poll. So collectives use a blocking communicator, which
// submits in the calling thread and is split from the first one. Both share NCCL's resources and
// the flag that ends their work (splitShare). If a blocking call does not return, another thread
// (CallWatch) aborts the first communicator, which makes the call return; the call uses only the
// other one.

constexpr auto kFirstPause = std::chrono::microseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(5);
constexpr double kFarewell = 5;  // limit in seconds for ending a communicator without pending work

// Pauses between polls while NCCL connects or disconnects ranks, or the GPU works.
class Pause {
 public:
  void operator()() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::microseconds>(2 * pause_, kLongestPause);
  }

 private:
  std::chrono::microseconds pause_ = kFirstPause;
};

size_t place(std::span<const size_t> bytes, int rank) {
  return std::accumulate(bytes.begin(), bytes.begin() + rank, size_t{0});
}

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(Runtime& runtime, const DeviceRank& me)
      : runtime_(runtime),
        rank_(me.rank),
        size_(me.size),
        device_(me.device),
        members_(me.members.begin(), me.members.end()),
        check_others_(me.check_others),
        stream_(runtime.make_stream(me.device)),
        completions_(*stream_),
        watch_([this](const char* call, double seconds) { check_call(call, seconds); },
               [this](const char* reason) { end_call(reason); }) {}
  ~NcclCommunicator() override { leave(); }

  // Collective over the ranks that have the id.
  void connect(ncclUniqueId id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 1;
    runtime_.use(device_);
    take(ncclCommInitRankConfig(&connection_, size_, id, rank_, &config), "ncclCommInitRankConfig");
    settle("ncclCommInitRankConfig");
    config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    take(ncclCommSplit(connection_, 0, rank_, &comm_, &config), "ncclCommSplit");
    settle("ncclCommSplit");
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return "nccl"; }
  int device() const override { return device_; }
  Stream& stream() override { return *stream_; }
  void describe(std::string what) override { what_ = std::move(what); }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    submit("ncclAllReduce", [&] {
      return ncclAllReduce(input, output, static_cast<size_t>(count), data_type(dtype),
                           operation(op, dtype), comm_, raw());
    });
  }

  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    const ncclDataType_t type = data_type(dtype);
    const ncclRedOp_t operator_ = operation(op, dtype);
    if (all_equal(counts)) {
      submit("ncclReduceScatter", [&] {
        return ncclReduceScatter(input, output, static_cast<size_t>(counts[0]), type, operator_,
                                 comm_, raw());
      });
      return;
    }
    submit_group("ncclReduce", [&](auto&& call) {
      const auto* from = static_cast<const std::byte*>(input);
      for (int r = 0; r < size_; ++r) {
        const auto count = static_cast<size_t>(counts[static_cast<size_t>(r)]);
        if (count > 0) call(ncclReduce(from, output, count, type, operator_, r, comm_, raw()));
        from += count * dtype_size(dtype);
      }
    });
  }

  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    if (all_equal(bytes)) {
      submit("ncclAllGather",
             [&] { return ncclAllGather(input, output, bytes[0], ncclUint8, comm_, raw()); });
      return;
    }
    submit_group("ncclBroadcast", [&](auto&& call) {
      auto* to = static_cast<std::byte*>(output);
      for (int r = 0; r < size_; ++r) {
        const size_t n = bytes[static_cast<size_t>(r)];
        if (n > 0) call(ncclBroadcast(r == rank_ ? input : to, to, n, ncclUint8, r, comm_, raw()));
        to += n;
      }
    });
  }

  void broadcast(void* data, size_t bytes, int root) override {
    MX_CHECK(root >= 0 && root < size_, "broadcast: root must be a rank below ", size_, ", got ",
             root);
    submit("ncclBroadcast",
           [&] { return ncclBroadcast(data, data, bytes, ncclUint8, root, comm_, raw()); });
  }

  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    const auto* from = static_cast<const std::byte*>(input);
    auto* to = static_cast<std::byte*>(output);
    const auto me = static_cast<size_t>(rank_);
    MX_CHECK(send[me] == receive[me], "all_to_all: rank ", members_.empty() ? rank_ : members_[me],
             " must send itself as many bytes as it receives from itself, ", receive[me], ", got ",
             send[me]);
    check_usable();
    if (send[me] > 0)
      stream_->copy(to + place(receive, rank_), from + place(send, rank_), send[me]);
    submit_group("ncclSend and ncclRecv", [&](auto&& call) {
      for (int r = 0; r < size_; ++r) {
        const size_t out = send[static_cast<size_t>(r)], in = receive[static_cast<size_t>(r)];
        if (r != rank_ && out > 0)
          call(ncclSend(from + place(send, r), out, ncclUint8, r, comm_, raw()));
        if (r != rank_ && in > 0)
          call(ncclRecv(to + place(receive, r), in, ncclUint8, r, comm_, raw()));
      }
    });
  }

  // Returns when the GPUs of all ranks have done all work that was submitted.
  void barrier() override {
    void* one = stream_->scratch(1);
    clear(one, 1);
    all_reduce(one, one, 1, DType::kUInt8, ReduceOp::kMax);
    wait_for_all();
  }

  void scale(void* data, int64_t count, DType dtype, double factor) override {
    check_usable();
    if (count > 0 && factor != 1) runtime_.scale(*stream_, data, count, dtype, factor);
  }
  void combine(void* data, const void* other, int64_t count, DType dtype, ReduceOp op) override {
    check_usable();
    if (count > 0) runtime_.combine(*stream_, data, other, count, dtype, op);
  }
  void clear(void* data, size_t bytes) override {
    check_usable();
    if (bytes > 0) runtime_.clear(*stream_, data, bytes);
  }

  std::unique_ptr<Communicator> split(int, int) override {
    // Jobs do not use split: they make the GPU communicator of a process set from the set's
    // processes.
    fail(ErrorKind::kNotSupported, "nccl: a communicator of GPUs is not split");
  }

  void when_done(DoneFn done) override {
    check_usable();
    completions_.add(what_, std::move(done));
  }
  bool busy() override { return completions_.busy(); }

  void look() override {
    check_usable();
    const ncclResult_t status = async_status(comm_);
    if (status != ncclSuccess && status != ncclInProgress) throw_nccl_error(status, what_.c_str());
    const auto oldest = completions_.oldest();
    if (oldest && oldest->seconds > comm_timeout())
      fail_with(str(oldest->what, " has waited ", waited_text()));
  }

  void fail_all(const char* reason) noexcept override {
    failure_.set(reason);
    completions_.fail(reason);
    abort(comm_);
    abort(connection_);
  }

 private:
  cudaStream_t raw() { return runtime_.raw(*stream_); }

  template <class T>
  static bool all_equal(std::span<const T> counts) {
    return std::all_of(counts.begin(), counts.end(), [&](T n) { return n == counts[0]; });
  }

  void check_usable() const {
    if (failure_.is_set()) fail(ErrorKind::kCommunicator, failure_.get());
  }

  static ncclResult_t async_status(ncclComm_t comm) {
    ncclResult_t status = ncclSuccess;
    MX_NCCL(ncclCommGetAsyncError(comm, &status));
    return status;
  }

  // Checks a call of the non-blocking communicator, which may be still in progress.
  static void take(ncclResult_t status, const char* call) {
    if (status != ncclInProgress) check(status, call);
  }

  // Waits until NCCL has connected or disconnected the ranks.
  void settle(const char* call, double seconds = comm_timeout()) {
    const Deadline deadline(seconds);
    Pause pause;
    for (;;) {
      const ncclResult_t status = async_status(connection_);
      if (status == ncclSuccess) return;
      if (status != ncclInProgress) throw_nccl_error(status, call);
      if (check_others_) check_others_();
      if (deadline.over()) fail_with(str(call, " has waited ", waited_text()));
      pause();
    }
  }

  void submit(const char* call, auto&& fn) {
    check_usable();
    runtime_.use(device_);
    ncclResult_t status;
    {
      const CallWatch::Call watched(watch_, call);
      status = fn();
    }
    if (failure_.is_set()) fail_with(failure_.get());
    check(status, call);
  }

  // Calls inside a group form one operation. The group is also ended after an error.
  void submit_group(const char* call, auto&& fn) {
    submit(call, [&] {
      ncclResult_t first = ncclGroupStart();
      fn([&](ncclResult_t status) {
        if (first == ncclSuccess) first = status;
      });
      const ncclResult_t end = ncclGroupEnd();
      return first == ncclSuccess ? end : first;
    });
  }

  // The two functions below run on another thread while this thread is inside a call.
  void check_call(const char* call, double seconds) const {
    if (check_others_) check_others_();
    if (seconds > call_limit_) fail(ErrorKind::kCommunicator, call, " has waited ", waited_text());
  }
  void end_call(const char* reason) noexcept {
    failure_.set(reason);
    completions_.fail(reason);
    abort(connection_);
  }

  std::string waited_text() const {
    std::string others;
    for (int r = 0; r < size_; ++r)
      if (r != rank_)
        others += str(others.empty() ? "" : ", ",
                      members_.empty() ? r : members_[static_cast<size_t>(r)]);
    return str(comm_timeout(), " s (MXLITE_COMM_TIMEOUT) for the GPUs of ranks ", others);
  }

  [[noreturn]] void fail_with(const std::string& reason) {
    fail_all(reason.c_str());
    fail(ErrorKind::kCommunicator, reason);
  }

  void wait_for_all() {
    bool done = false;
    std::exception_ptr error;
    std::mutex mutex;
    when_done([&](std::exception_ptr e) {
      std::lock_guard lock(mutex);
      error = std::move(e);
      done = true;
    });
    Pause pause;
    for (;;) {
      {
        std::lock_guard lock(mutex);
        if (done) break;
      }
      try {
        if (check_others_) check_others_();
        look();
      } catch (const std::exception& e) {
        fail_all(e.what());  // aborts the work, so that `done` is set soon
      }
      pause();
    }
    if (error) std::rethrow_exception(error);
  }

  // Ends the work on the GPU, whether or not other ranks take part.
  static void abort(ncclComm_t& comm) noexcept {
    if (comm) ncclCommAbort(std::exchange(comm, nullptr));
  }

  // All ranks leave after the same operations, so submitted work ends on all ranks. Until
  // ncclCommFinalize has finished, NCCL may still send data of completed operations.
  void leave() noexcept {
    try {
      Pause pause;
      while (completions_.busy() && !failure_.is_set()) {
        look();
        pause();
      }
      if (!comm_) return;
      call_limit_ = std::min(comm_timeout(), kFarewell);
      submit("ncclCommFinalize", [&] { return ncclCommFinalize(comm_); });
      MX_NCCL(ncclCommDestroy(std::exchange(comm_, nullptr)));
      take(ncclCommFinalize(connection_), "ncclCommFinalize");
      settle("ncclCommFinalize", call_limit_);
      MX_NCCL(ncclCommDestroy(std::exchange(connection_, nullptr)));
    } catch (const std::exception& error) {
      fail_all(error.what());
    }
  }

  Runtime& runtime_;
  const int rank_, size_, device_;
  const std::vector<int> members_;
  const std::function<void()> check_others_;
  const std::unique_ptr<Stream> stream_;
  Completions completions_;
  ncclComm_t connection_ = nullptr, comm_ = nullptr;  // see Note [Two communicators]
  double call_limit_ = comm_timeout();                // seconds
  std::string what_ = "start";
  FailureText failure_;
  CallWatch watch_;  // the last member: its thread uses the others
};

class NcclBackend final : public DeviceBackend {
 public:
  explicit NcclBackend(Runtime& runtime) : runtime_(runtime) {}
  int version() override {
    int version = 0;
    MX_NCCL(ncclGetVersion(&version));
    return version;
  }
  std::string physical_id(int device) override { return runtime_.physical_id(device); }
  UniqueId make_id() override {
    ncclUniqueId made;
    MX_NCCL(ncclGetUniqueId(&made));
    UniqueId id;
    std::memcpy(id.bytes, &made, sizeof id.bytes);
    return id;
  }
  std::unique_ptr<DeviceCommunicator> join(const UniqueId& id, const DeviceRank& me) override {
    ncclUniqueId name;
    std::memcpy(&name, id.bytes, sizeof name);
    auto group = std::make_unique<NcclCommunicator>(runtime_, me);
    try {
      group->connect(name);
    } catch (const std::exception& error) {
      group->fail_all(error.what());
      throw;
    }
    return group;
  }

 private:
  Runtime& runtime_;
};

}  // namespace

std::unique_ptr<DeviceBackend> make_nccl_backend(Runtime& runtime) {
  return std::make_unique<NcclBackend>(runtime);
}

}  // namespace mxlite::nccl
