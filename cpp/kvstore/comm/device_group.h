// Collectives on device memory between the GPUs of this process and, with a bootstrap, those of
// other processes. They use one communicator and one stream per GPU, and run through NCCL, which is
// part of the CUDA plug-in.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite {

// Distributes the group's NCCL id from the process of the first GPU. Each GPU is a rank: this
// process has the ranks from first_rank on.
struct DeviceBootstrap {
  int first_rank = 0, size = 0;  // size is 0 if other processes have no GPUs
  // Copies `data` from the process of rank 0 to all processes. Collective.
  std::function<void(void* data, size_t bytes)> broadcast;
};
// Makes a bootstrap that uses a communicator of processes (MPI, TCP, shared memory); collective.
DeviceBootstrap bootstrap_through(Communicator& processes, int local_devices);
// Operand on one GPU. The input must be computed, and the memory must stay valid until synchronize
// returns.
struct DeviceBuffer {
  const void* input = nullptr;
  void* output = nullptr;  // may be the input
};

// Must be called by one thread at a time, in the same order in every process.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  virtual const std::vector<int>& devices() const = 0;  // GPUs of this process, by rank
  virtual int first_rank() const = 0;
  virtual int size() const = 0;  // number of GPUs of all processes

  // Collectives submit work to the streams; the work has finished when synchronize returns.
  virtual void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                          ReduceOp op) = 0;
  // The input holds size() * count elements; each GPU receives its `count` elements of the result.
  virtual void reduce_scatter(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                              ReduceOp op) = 0;
  // Each GPU contributes `bytes`.
  virtual void all_gather(std::span<const DeviceBuffer> buffers, size_t bytes) = 0;
  virtual void broadcast(std::span<const DeviceBuffer> buffers, size_t bytes, int root) = 0;
  // Waits for the submitted work. Throws a communicator error if it fails on a GPU or takes longer
  // than MXLITE_COMM_TIMEOUT; then every later call throws as well.
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
