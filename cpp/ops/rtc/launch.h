// Launches of run-time compiled kernels on arrays, in the engine's order.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"
#include "cpp/ops/rtc/device_program.h"

namespace mxlite::rtc {

// An array, or a number as the kernel's parameter holds it.
struct LaunchArgument {
  NDArrayRef array;  // null: a number
  bool is_const = false;
  std::array<std::byte, 8> number{};
  size_t number_bytes = 0;
};

// Launches a kernel of the program on a GPU after the tasks that it depends on: it reads arrays
// that are const, and reads and writes the others. Arrays are contiguous, dense and on that GPU.
// Throws at once if the program cannot be compiled or loaded; a failed launch is an error of the
// written arrays.
void launch_on_arrays(DeviceProgram& program, const std::string& kernel, int device,
                      const LaunchGrid& grid, std::vector<LaunchArgument> arguments,
                      engine::Origin origin);

}  // namespace mxlite::rtc
