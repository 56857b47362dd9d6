// The device of an array. Type codes are MXNet's, because .params files contain them.
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

const char* device_type_name(DeviceType type);  // returns "cpu", "gpu", "cpu_pinned" or
                                                // "cpu_shared"
std::ostream& operator<<(std::ostream& out, const Device& device);  // prints for example cpu(0)

}  // namespace mxlite
