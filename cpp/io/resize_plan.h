// Decides which part of an image a sample shows and how that part is resized.
#pragma once
#include <optional>

#include "cpp/io/image_geometry.h"
#include "cpp/io/linear_resize.h"

namespace mxlite::io {

// Resizes `rectangle` of the image to `size`, in which the sample begins at (x, y).
struct ResizePlan {
  Region rectangle;
  Extent size;
  int x = 0, y = 0;
};

// Returns the plan of a sample; returns nothing, and draws nothing, if the image is resized twice.
std::optional<ResizePlan> plan_resize(Extent image, const ImageParams& params, Random& random);
// Returns whether both sides are halved: OpenCV then averages four pixels.
bool halves(const ResizePlan& plan);

struct ResizeAxes {
  ResizeAxis columns, rows;
};
// The coordinates of the rectangle are divided by `denominator` if the image was decoded at
// 1/denominator of its size.
ResizeAxes resize_axes(const ResizePlan& plan, const ImageParams& params, int denominator);

}  // namespace mxlite::io
