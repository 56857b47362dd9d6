// Launches of run-time compiled kernels on arrays, in the engine's order.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/rtc/device_program.h"

namespace mxlite::rtc {

// An array, or a number in the type of the kernel's parameter.
struct LaunchArgument {
  NDArrayRef array;  // null for a number
  bool is_const = false;
  std::array<std::byte, 8> number{};
  size_t number_bytes = 0;
};

// Launches a kernel of the program on a GPU as an engine task, which reads const arrays, and reads
// and writes the other arrays. Arrays must be contiguous, dense and on that GPU. Throws immediately
// if the program cannot be compiled or loaded; a failed launch becomes an error of the written
// arrays.
void launch_on_arrays(DeviceProgram& program, const std::string& kernel, int device,
                      const LaunchGrid& grid, std::vector<LaunchArgument> arguments,
                      engine::Origin origin);

}  // namespace mxlite::rtc
