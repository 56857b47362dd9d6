// Sums of device memory between the GPUs of this process. The sums use NCCL, which is part of the
// CUDA plug-in.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "cpp/core/stream.h"
#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// Operand on one GPU. The memory must stay valid until the stream has done the work.
struct DeviceBuffer {
  const void* input = nullptr;
  void* output = nullptr;  // may be the input
  Stream* stream = nullptr;
};

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  // Submits the sum to the streams, in the order of the group's GPUs. Call on one thread at a time.
  virtual void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                          ReduceOp op) = 0;
  // Throws a communicator error if submitted work has failed. Any thread may call look and abort.
  virtual void look() = 0;
  // Ends submitted work even if some GPUs do not take part. Later calls throw the reason.
  virtual void abort(const char* reason) noexcept = 0;
};

using MakeDeviceGroupFn = std::shared_ptr<DeviceGroup> (*)(const std::vector<int>& devices);
// The plug-in calls this function when it is loaded.
void set_device_group_backend(MakeDeviceGroupFn make);
bool has_device_groups();
// Throws a not-supported error that names the build option if NCCL is missing.
std::shared_ptr<DeviceGroup> make_device_group(const std::vector<int>& devices);

}  // namespace mxlite
