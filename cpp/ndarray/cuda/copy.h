// Implements copy_strided within one GPU. The plug-in registers this function with set_device_copy.
#pragma once
#include "cpp/ndarray/copy.h"

namespace mxlite::cuda {

void copy_strided(Stream& stream, const Shape& shape, const StridedData& src,
                  const StridedData& dst);

}  // namespace mxlite::cuda
