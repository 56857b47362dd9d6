// The NCCL backend of device groups.
#pragma once
#include "cpp/kvstore/comm/device_group.h"

namespace mxlite::nccl {

std::shared_ptr<DeviceGroup> make_nccl_group(const std::vector<int>& devices);

// NCCL versions of the loaded library and of the header at build time. 22809 means version 2.28.9.
int version_found();
int version_built();

}  // namespace mxlite::nccl
