// Error texts for a driver and a GPU that cannot run this build.
#pragma once
#include <string>

#include "cpp/base/str.h"

namespace mxlite::cuda {

// Returns "" if the driver supports the CUDA version `needed`, otherwise a text that names both
// versions. Versions have the form of cudaDriverGetVersion, such as 13000. If `found` is 0, no
// driver exists.
inline std::string driver_problem(int found, int needed) {
  if (found >= needed) return "";
  const auto text = [](int v) { return str(v / 1000, '.', v % 1000 / 10); };
  if (found == 0)
    return str("this machine has no NVIDIA driver that answers; this build needs one for CUDA ",
               text(needed), " or later");
  return str("the NVIDIA driver supports CUDA up to ", text(found), ", but this build needs CUDA ",
             text(needed),
             "; install a newer driver (the command nvidia-smi names the present one)");
}

// Text for a GPU without compiled kernels. The architectures have the form "9.0".
inline std::string architecture_problem(int device, const std::string& name,
                                        const std::string& found, const char* compiled) {
  return str("gpu(", device, ") is ", name, " of architecture ", found,
             ", but this build has kernels for ", compiled,
             " only; build with MXLITE_CUDA_ARCHITECTURES, or use another GPU or mx.cpu()");
}

}  // namespace mxlite::cuda
