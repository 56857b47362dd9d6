// Implements copy_strided for memory of one GPU; set_device_copy gets it when the plug-in loads.
#pragma once
#include "cpp/ndarray/copy.h"

namespace mxlite::cuda {

void copy_strided(Stream& stream, const Shape& shape, const StridedData& src,
                  const StridedData& dst);

}  // namespace mxlite::cuda
