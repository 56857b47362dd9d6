// The NCCL communicator of the CUDA plug-in on the fake NCCL.
#pragma once
#include <atomic>
#include <cstdint>

#include "cpp/kvstore/comm/device_communicator.h"

namespace fake_nccl {

extern std::atomic<int64_t> polls;  // calls of ncclCommGetAsyncError

}  // namespace fake_nccl

namespace mxlite::nccl {

// Lives until the process ends.
DeviceBackend& fake_backend();

}  // namespace mxlite::nccl
