// Sizes and positions for ImageRecordIter's resizing and cropping, some of them random.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

struct Extent {
  int width = 0, height = 0;
  bool operator==(const Extent&) const = default;
};

// Returns the size with params.resize as its short side; unchanged if that is not positive.
Extent short_side_size(Extent image, const ImageParams& params);
// Returns the smallest enlargement that contains the sample.
Extent enlarged_size(Extent image, const ImageParams& params);
Region placed(Extent outer, Extent inner, bool at_random, Random& random);
// Draws the region to cut out and resize for random_resized_crop or crop sizes; empty for neither.
Region drawn_rectangle(Extent image, const ImageParams& params, Random& random);
// Returns whether rotation, shear, scaling or aspect apply.
bool warps(const ImageParams& params);
// Returns the largest denominator whose image is at least `wanted` if the whole one is `whole`.
int scaled_decode(Extent whole, Extent wanted);

}  // namespace mxlite::io
