// Collectives on the GPUs of several hosts for the case that NCCL must not connect hosts. They use
// NCCL inside a host, and the network of the processes (MPI, TCP) between hosts.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite {

struct DeviceHierarchy {
  std::unique_ptr<DeviceCommunicator> gpus;  // GPUs of this host
  std::unique_ptr<Communicator> all;         // all ranks
  // Ranks with the same local rank on each host. Null unless every host has such a rank.
  std::unique_ptr<Communicator> cross;
  bool even = true;  // whether all hosts have the same number of ranks
  // This rank's GPU. Set if `cross` of every rank accepts GPU memory in all_to_all.
  std::optional<Device> direct;
  // Called while this process waits for GPUs. Throws if another rank is lost.
  std::function<void()> check_others;
};

// An all-reduce first sums inside each host. Then each GPU of a host exchanges its part with the
// other hosts, from GPU memory if `direct` is set, otherwise through page-locked host memory. All
// other collectives use page-locked host memory. Calls return after the transfers between hosts.
std::unique_ptr<DeviceCommunicator> make_device_hierarchy(DeviceHierarchy hierarchy);

}  // namespace mxlite
