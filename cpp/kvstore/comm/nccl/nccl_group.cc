#include "cpp/kvstore/comm/nccl/nccl_group.h"

#include <mutex>
#include <utility>

#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/stream.h"
#include "cpp/kvstore/comm/failure_text.h"
#include "cpp/kvstore/comm/nccl/nccl_call.h"

namespace mxlite::nccl {
namespace {

// Combines the NCCL calls made during its lifetime into one operation.
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

class NcclGroup final : public DeviceGroup {
 public:
  explicit NcclGroup(const std::vector<int>& devices)
      : devices_(devices), comms_(devices.size(), nullptr) {
    try {
      MX_NCCL(ncclCommInitAll(comms_.data(), static_cast<int>(devices.size()), devices_.data()));
    } catch (...) {
      abort("the GPUs could not be connected");
      throw;
    }
  }
  ~NcclGroup() override {
    for (const ncclComm_t comm : comms_)
      if (comm) ncclCommDestroy(comm);
  }

  void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                  ReduceOp op) override {
    std::lock_guard lock(mutex_);
    if (failure_.is_set())
      fail(ErrorKind::kCommunicator, "nccl: the group has failed: ", failure_.get());
    MX_ASSERT(buffers.size() == comms_.size());
    Group group;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const cuda::DeviceGuard guard(devices_[i]);
      const DeviceBuffer& b = buffers[i];
      MX_NCCL(ncclAllReduce(b.input, b.output, static_cast<size_t>(count), data_type(dtype),
                            operation(op, dtype), comms_[i],
                            static_cast<cuda::CudaStream*>(b.stream)->raw()));
    }
    group.end();
  }

  void look() override {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < comms_.size() && !failure_.is_set(); ++i) {
      ncclResult_t status = ncclSuccess;
      MX_NCCL(ncclCommGetAsyncError(comms_[i], &status));
      if (status != ncclSuccess && status != ncclInProgress)
        fail(ErrorKind::kCommunicator, "nccl: gpu(", devices_[i],
             "): ", ncclGetErrorString(status));
    }
  }

  void abort(const char* reason) noexcept override {
    std::lock_guard lock(mutex_);
    failure_.set(reason);
    for (ncclComm_t& comm : comms_)
      if (comm) ncclCommAbort(std::exchange(comm, nullptr));
  }

 private:
  const std::vector<int> devices_;
  std::mutex mutex_;               // guards the fields below, because the watching thread may abort
  std::vector<ncclComm_t> comms_;  // indexed by GPU; null if aborted
  FailureText failure_;
};

}  // namespace

std::shared_ptr<DeviceGroup> make_nccl_group(const std::vector<int>& devices) {
  return std::make_shared<NcclGroup>(devices);
}

int version_found() {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}

int version_built() { return NCCL_VERSION_CODE; }

}  // namespace mxlite::nccl
