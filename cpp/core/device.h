// The device of an array. Type codes are MXNet's (they are written into .params files).
#pragma once
#include <cstdint>
#include <ostream>

namespace mxlite {

enum class DeviceType : uint8_t { kCPU = 1, kCUDA = 2, kPinned = 3, kShared = 5 };

struct Device {
  DeviceType type = DeviceType::kCPU;
  int index = 0;
  bool operator==(const Device&) const = default;
};

const char* device_type_name(DeviceType type);  // "cpu", "gpu", "cpu_pinned", "cpu_shared"
std::ostream& operator<<(std::ostream& out, const Device& device);  // cpu(0)

}  // namespace mxlite
