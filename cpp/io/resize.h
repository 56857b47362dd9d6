// Resizes images with OpenCV.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

// `image` is a uint8 or float32 array (height, width, channels). `interpolation` is 0 (nearest), 1
// (linear), 2 (cubic), 3 (area) or 4 (Lanczos). Waits for the image. The result is ready on return.
NDArrayRef resize_image(const NDArrayRef& image, int64_t width, int64_t height, int interpolation);

}  // namespace mxlite::io
