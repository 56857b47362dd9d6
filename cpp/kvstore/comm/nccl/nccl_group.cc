#include "cpp/kvstore/comm/nccl/nccl_group.h"

#include <chrono>
#include <thread>

#include "cpp/core/cuda/check.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/nccl/nccl_call.h"

namespace mxlite::nccl {
namespace {

// Combines the NCCL calls during its lifetime into one operation.
class Group {
 public:
  Group() { MX_NCCL(ncclGroupStart()); }
  ~Group() {
    if (open_) ncclGroupEnd();
  }
  void end() {
    open_ = false;
    MX_NCCL(ncclGroupEnd());
  }

 private:
  bool open_ = true;
};

// One GPU of the group.
struct Member {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
};

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const std::vector<int>& devices, const DeviceBootstrap& bootstrap)
      : devices_(devices), first_rank_(bootstrap.first_rank) {
    const auto local = static_cast<int>(devices.size());
    size_ = bootstrap.size > 0 ? bootstrap.size : local;
    MX_CHECK(first_rank_ + local <= size_, "nccl: GPUs must be in [0, ", size_ - 1,
             "] in a group of ", size_, ", got ", first_rank_, " to ", first_rank_ + local - 1);
    ncclUniqueId id{};
    if (first_rank_ == 0) MX_NCCL(ncclGetUniqueId(&id));
    if (bootstrap.broadcast && size_ > local) bootstrap.broadcast(&id, sizeof id);
    members_.resize(devices.size());
    try {
      join(id);
    } catch (...) {
      leave();
      throw;
    }
  }
  ~NcclGroup() override { leave(); }

  const std::vector<int>& devices() const override { return devices_; }
  int first_rank() const override { return first_rank_; }
  int size() const override { return size_; }

  void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                  ReduceOp op) override {
    give(buffers, [&](const Member& m, const DeviceBuffer& b) {
      MX_NCCL(ncclAllReduce(b.input, b.output, static_cast<size_t>(count), data_type(dtype),
                            operation(op, dtype), m.comm, m.stream));
    });
  }
  void reduce_scatter(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                      ReduceOp op) override {
    give(buffers, [&](const Member& m, const DeviceBuffer& b) {
      MX_NCCL(ncclReduceScatter(b.input, b.output, static_cast<size_t>(count), data_type(dtype),
                                operation(op, dtype), m.comm, m.stream));
    });
  }
  void all_gather(std::span<const DeviceBuffer> buffers, size_t bytes) override {
    give(buffers, [&](const Member& m, const DeviceBuffer& b) {
      MX_NCCL(ncclAllGather(b.input, b.output, bytes, ncclUint8, m.comm, m.stream));
    });
  }
  void broadcast(std::span<const DeviceBuffer> buffers, size_t bytes, int root) override {
    MX_CHECK(root >= 0 && root < size_, "nccl: root must be a GPU below ", size_, ", got ", root);
    give(buffers, [&](const Member& m, const DeviceBuffer& b) {
      MX_NCCL(ncclBroadcast(b.input, b.output, bytes, ncclUint8, root, m.comm, m.stream));
    });
  }

  void synchronize() override {
    check_usable();
    const Deadline deadline(comm_timeout());
    for (const Member& m : members_) MX_CUDA(cudaEventRecord(m.done, m.stream));
    for (const Member& m : members_) {
      while (!cuda::is_reached(m.done)) {
        ncclResult_t async = ncclSuccess;
        MX_NCCL(ncclCommGetAsyncError(m.comm, &async));
        if (async != ncclSuccess && async != ncclInProgress)
          break_with(str("gpu(", m.device, "): ", ncclGetErrorString(async)));
        if (deadline.over())
          break_with(str("gpu(", m.device, ") has waited ", comm_timeout(),
                         " s for the others (MXLITE_COMM_TIMEOUT)"));
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

 private:
  void join(const ncclUniqueId& id) {
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& m = members_[i];
      m.device = devices_[i];
      const cuda::DeviceGuard guard(m.device);
      MX_CUDA(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
      MX_CUDA(cudaEventCreateWithFlags(&m.done, cudaEventDisableTiming));
    }
    Group group;
    for (size_t i = 0; i < members_.size(); ++i) {
      const cuda::DeviceGuard guard(members_[i].device);
      MX_NCCL(ncclCommInitRank(&members_[i].comm, size_, id, first_rank_ + static_cast<int>(i)));
    }
    group.end();
  }

  // Aborts the communicators of a broken group, because an orderly end would wait for all ranks.
  void leave() noexcept {
    for (Member& m : members_) {
      if (m.comm) broken_.empty() ? ncclCommDestroy(m.comm) : ncclCommAbort(m.comm);
      if (m.done) MX_CUDA_NOEXCEPT(cudaEventDestroy(m.done));
      if (m.stream) MX_CUDA_NOEXCEPT(cudaStreamDestroy(m.stream));
      m = {};
    }
  }

  void give(std::span<const DeviceBuffer> buffers, auto&& fn) {
    check_usable();
    MX_ASSERT(buffers.size() == members_.size());
    Group group;
    for (size_t i = 0; i < members_.size(); ++i) {
      const cuda::DeviceGuard guard(members_[i].device);
      fn(members_[i], buffers[i]);
    }
    group.end();
  }

  void check_usable() const {
    if (!broken_.empty()) fail(ErrorKind::kCommunicator, "nccl: the group has failed: ", broken_);
  }
  [[noreturn]] void break_with(std::string reason) {
    broken_ = std::move(reason);
    leave();
    fail(ErrorKind::kCommunicator, "nccl: ", broken_);
  }

  const std::vector<int> devices_;
  const int first_rank_;
  int size_ = 1;
  std::vector<Member> members_;  // by local rank
  std::string broken_;           // why no operation can run; empty if operations can run
};

}  // namespace

std::unique_ptr<DeviceGroup> make_nccl_group(const std::vector<int>& devices,
                                             const DeviceBootstrap& bootstrap) {
  return std::make_unique<NcclGroup>(devices, bootstrap);
}

int version_found() {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}

int version_built() { return NCCL_VERSION_CODE; }

}  // namespace mxlite::nccl
