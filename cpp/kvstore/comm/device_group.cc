#include "cpp/kvstore/comm/device_group.h"

#include <atomic>
#include <memory>
#include <set>

#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"

namespace mxlite {
namespace {

std::atomic<MakeDeviceGroupFn> the_backend{nullptr};

}  // namespace

void set_device_group_backend(MakeDeviceGroupFn make) { the_backend = make; }

bool has_device_groups() { return accelerator() && the_backend.load(); }

std::unique_ptr<DeviceGroup> make_device_group(const std::vector<int>& devices,
                                               const DeviceBootstrap& bootstrap) {
  MX_CHECK(!devices.empty(), "nccl: the number of GPUs must be at least 1, got 0");
  MX_CHECK(std::set<int>(devices.begin(), devices.end()).size() == devices.size(),
           "nccl: GPUs must be different, got one twice");
  MX_CHECK_KIND(accelerator(), ErrorKind::kNotSupported, "nccl: ", accelerator_absence(),
                "; sums on GPUs need a build with -DMXLITE_CUDA=ON and an NVIDIA driver");
  const MakeDeviceGroupFn make = the_backend;
  MX_CHECK_KIND(make, ErrorKind::kNotSupported,
                "nccl: this CUDA plug-in has no NCCL, build it with -DMXLITE_CUDA=ON");
  for (const int device : devices) require_accelerator("nccl", device);
  return make(devices, bootstrap);
}

DeviceBootstrap bootstrap_through(Communicator& processes, int local_devices) {
  const auto size = static_cast<size_t>(processes.size());
  std::vector<int> counts(size);
  processes.all_gather(&local_devices, counts.data(), std::vector<size_t>(size, sizeof(int)));
  DeviceBootstrap b;
  for (size_t r = 0; r < size; ++r) {
    if (static_cast<int>(r) < processes.rank()) b.first_rank += counts[r];
    b.size += counts[r];
  }
  b.broadcast = [&processes](void* data, size_t bytes) { processes.broadcast(data, bytes, 0); };
  return b;
}

}  // namespace mxlite
