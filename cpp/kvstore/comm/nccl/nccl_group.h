// The NCCL backend of device groups.
#pragma once
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite::nccl {

std::unique_ptr<DeviceGroup> make_nccl_group(const std::vector<int>& devices,
                                             const DeviceBootstrap& bootstrap);

// Versions of the library and of the header that was compiled, such as 22809 for 2.28.9.
int version_found();
int version_built();

}  // namespace mxlite::nccl
