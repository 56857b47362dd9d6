// Rotates and mirrors images upright.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

// Turns an image of Exif orientation 1 to 8 upright. Orientations 5 to 8 swap height and width.
void orient_pixels(const unsigned char* pixels, int height, int width, int channels,
                   int orientation, unsigned char* output);
// Like the function above, but for a uint8 array (height, width, channels) that is computed. For
// orientation 1, returns `image` itself.
NDArrayRef orient(const NDArrayRef& image, int orientation);

}  // namespace mxlite::io
