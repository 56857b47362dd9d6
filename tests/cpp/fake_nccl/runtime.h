// The NCCL communicator of the CUDA plug-in on the fake NCCL.
#pragma once
#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite::nccl {

// Lives until the process ends.
DeviceBackend& fake_backend();

}  // namespace mxlite::nccl
