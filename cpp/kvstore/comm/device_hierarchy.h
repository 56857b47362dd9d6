// Collectives on the GPUs of several hosts where NCCL shall not connect hosts: NCCL inside a host,
// the network of the processes (MPI, TCP) between hosts.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite {

struct DeviceHierarchy {
  std::unique_ptr<DeviceCommunicator> gpus;  // GPUs of this host
  std::unique_ptr<Communicator> all;         // all ranks
  // The same local rank on each host; on uneven hosts only the first ranks have one, others null.
  std::unique_ptr<Communicator> cross;
  bool even = true;  // the same number of ranks on each host
  // The GPU, if `cross` of every rank takes the memory of GPUs in all_to_all.
  std::optional<Device> direct;
  // Called while this process waits for GPUs; throws if another rank is lost.
  std::function<void()> check_others;
};

// An all-reduce sums inside each host first; each GPU of a host then sends its part to the other
// hosts: from its own memory if the network takes that, and through page-locked host memory
// otherwise, as the data of all other collectives travels. Calls return after the part that travels
// between hosts has been sent and received.
std::unique_ptr<DeviceCommunicator> make_device_hierarchy(DeviceHierarchy hierarchy);

}  // namespace mxlite
