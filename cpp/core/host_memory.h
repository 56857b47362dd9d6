// Distinguishes host memory from memory of devices that compute.
#pragma once
#include "cpp/core/device_map.h"

namespace mxlite {

// Returns whether the host computes on the device's memory, which includes pinned and shared
// memory.
constexpr bool is_host_memory(const Device& device) {
  return computing_device(device.type) == DeviceType::kCPU;
}

}  // namespace mxlite
