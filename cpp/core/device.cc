#include "cpp/core/device.h"

namespace mxlite {

const char* device_type_name(DeviceType type) {
  switch (type) {
    case DeviceType::kCPU:
      return "cpu";
    case DeviceType::kCUDA:
      return "gpu";
    case DeviceType::kPinned:
      return "cpu_pinned";
    case DeviceType::kShared:
      return "cpu_shared";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << device_type_name(device.type) << '(' << device.index << ')';
}

}  // namespace mxlite
