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

std::shared_ptr<DeviceGroup> make_device_group(const std::vector<int>& devices) {
  MX_CHECK(!devices.empty(), "nccl: the number of GPUs must be at least 1, got 0");
  MX_CHECK(std::set<int>(devices.begin(), devices.end()).size() == devices.size(),
           "nccl: GPUs must be distinct, got a GPU twice");
  MX_CHECK_KIND(accelerator(), ErrorKind::kNotSupported, "nccl: ", accelerator_absence(),
                "; sums on GPUs need a build with -DMXLITE_CUDA=ON and an NVIDIA driver");
  const MakeDeviceGroupFn make = the_backend;
  MX_CHECK_KIND(make, ErrorKind::kNotSupported,
                "nccl: the CUDA plug-in must contain NCCL; build it with -DMXLITE_CUDA=ON");
  for (const int device : devices) require_accelerator("nccl", device);
  return make(devices);
}

}  // namespace mxlite
