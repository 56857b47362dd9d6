// Computes sizes and positions for ImageRecordIter's resizing and (random) cropping.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

struct Extent {
  int width = 0, height = 0;
  bool operator==(const Extent&) const = default;
};

// Returns the size scaled to a short side of params.resize. Returns the size unchanged if
// params.resize <= 0.
Extent short_side_size(Extent image, const ImageParams& params);
// Returns the size after scaling up by the smallest factor for which it contains the sample.
Extent enlarged_size(Extent image, const ImageParams& params);
Region placed(Extent outer, Extent inner, bool at_random, Random& random);
// Draws the crop for random_resized_crop or for random crop sizes. Returns an empty region if
// neither option is set.
Region drawn_rectangle(Extent image, const ImageParams& params, Random& random);
// Returns whether params require rotation, shear, scaling or a change of aspect ratio.
bool warps(const ImageParams& params);
// Returns the largest denominator (1, 2, 4, 8) that scales `whole` to at least the size `wanted`.
int scaled_decode(Extent whole, Extent wanted);

}  // namespace mxlite::io
