// Collectives between GPUs, on device memory: those of this process and, with a bootstrap, those of
// other processes. One communicator and one stream per GPU. NCCL does the work; it is part of the
// CUDA plug-in.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// Sends the group's name from the process of the first GPU to the others. Ranks count GPUs: this
// process has those from first_rank on.
struct DeviceBootstrap {
  int first_rank = 0, size = 0;  // size 0: there are no GPUs of other processes
  // Gives every process the contents of `data` in the process of rank 0. Collective.
  std::function<void(void* data, size_t bytes)> broadcast;
};
// Bootstraps through a communicator of processes (MPI, TCP, shared memory); collective.
DeviceBootstrap bootstrap_through(Communicator& processes, int local_devices);
// One buffer for each GPU of this process. The memory is computed and stays until synchronize.
struct DeviceBuffer {
  const void* input = nullptr;
  void* output = nullptr;  // may be the input
};

// Must be called by one thread at a time, in the same order in every process.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  virtual const std::vector<int>& devices() const = 0;  // in this process, by rank
  virtual int first_rank() const = 0;
  virtual int size() const = 0;  // GPUs of all processes

  // Submitted to the streams; done when synchronize returns.
  virtual void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                          ReduceOp op) = 0;
  // Each GPU receives `count` elements, its part of size() * count.
  virtual void reduce_scatter(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                              ReduceOp op) = 0;
  // Each GPU contributes `bytes`.
  virtual void all_gather(std::span<const DeviceBuffer> buffers, size_t bytes) = 0;
  virtual void broadcast(std::span<const DeviceBuffer> buffers, size_t bytes, int root) = 0;
  // Throws a communicator error when a GPU's part has failed, or after MXLITE_COMM_TIMEOUT; every
  // call after that does, too.
  virtual void synchronize() = 0;
};

using MakeDeviceGroupFn = std::unique_ptr<DeviceGroup> (*)(const std::vector<int>& devices,
                                                           const DeviceBootstrap& bootstrap);
// Called by the plug-in when it is loaded.
void set_device_group_backend(MakeDeviceGroupFn make);
bool has_device_groups();
// Collective. Without NCCL it throws a not-supported error that names the build option.
std::unique_ptr<DeviceGroup> make_device_group(const std::vector<int>& devices,
                                               const DeviceBootstrap& bootstrap = {});

}  // namespace mxlite
