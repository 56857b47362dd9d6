// Resizing images with OpenCV.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

// image: (height, width, channels), uint8 or float32. interpolation: 0 nearest, 1 linear, 2 cubic,
// 3 area, 4 Lanczos. Waits for the image; the result is ready.
NDArrayRef resize_image(const NDArrayRef& image, int64_t width, int64_t height, int interpolation);

}  // namespace mxlite::io
