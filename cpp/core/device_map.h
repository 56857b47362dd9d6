// One value for each device that computes. If a device type is added, users of this class need no
// change.
#pragma once
#include <array>
#include <cstddef>

#include "cpp/core/device.h"

namespace mxlite {

inline constexpr size_t kMaxDeviceTypes = 8;  // exceeds every code of DeviceType

// Returns the type of the device that computes on memory of `type`: the CPU for all host memory.
constexpr DeviceType computing_device(DeviceType type) {
  return type == DeviceType::kPinned || type == DeviceType::kShared ? DeviceType::kCPU : type;
}

// One T for each device that computes, created by its default constructor.
template <class T>
class DeviceMap {
 public:
  T& operator[](DeviceType type) { return values_[index(type)]; }
  const T& operator[](DeviceType type) const { return values_[index(type)]; }

 private:
  static size_t index(DeviceType type) { return static_cast<size_t>(computing_device(type)); }
  std::array<T, kMaxDeviceTypes> values_{};
};

}  // namespace mxlite
