// Tells memory of the host from memory of devices that compute by themselves.
#pragma once
#include "cpp/core/device_map.h"

namespace mxlite {

// Returns whether the host computes on the device's memory, pinned and shared memory included.
constexpr bool is_host_memory(const Device& device) {
  return computing_device(device.type) == DeviceType::kCPU;
}

}  // namespace mxlite
