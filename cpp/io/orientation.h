// Rotates and mirrors images upright.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

// orientation: exif_orientation's 1 to 8. Height and width are swapped from 5 on.
void orient_pixels(const unsigned char* pixels, int height, int width, int channels,
                   int orientation, unsigned char* output);
// image: uint8 (height, width, channels), computed; returned itself if it is upright.
NDArrayRef orient(const NDArrayRef& image, int orientation);

}  // namespace mxlite::io
