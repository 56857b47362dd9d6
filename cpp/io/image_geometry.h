// Sizes and places of ImageRecordIter's resizing and cropping, some of them drawn.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

struct Extent {
  int width = 0, height = 0;
  bool operator==(const Extent&) const = default;
};

// The short side becomes params.resize; the same size if that is not positive.
Extent short_side_size(Extent image, const ImageParams& params);
// The least enlargement that holds the sample.
Extent enlarged_size(Extent image, const ImageParams& params);
Region placed(Extent outer, Extent inner, bool at_random, Random& random);
// Draws the region to cut out and resize for random_resized_crop or crop sizes; empty for neither.
Region drawn_rectangle(Extent image, const ImageParams& params, Random& random);
// Whether rotation, shear, scaling or aspect apply.
bool warps(const ImageParams& params);
// The largest denominator whose picture is at least `wanted` where the whole one is `whole`.
int scaled_decode(Extent whole, Extent wanted);

}  // namespace mxlite::io
