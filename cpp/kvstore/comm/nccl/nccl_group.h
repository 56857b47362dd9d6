// The NCCL backend of device groups.
#pragma once
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite::nccl {

std::unique_ptr<DeviceGroup> make_nccl_group(const std::vector<int>& devices,
                                             const DeviceBootstrap& bootstrap);

}  // namespace mxlite::nccl
