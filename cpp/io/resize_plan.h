// Decides which part of an image a sample uses and how that part is resized.
#pragma once
#include <optional>

#include "cpp/io/image_geometry.h"
#include "cpp/io/linear_resize.h"

namespace mxlite::io {

// The image's `rectangle` is resized to `size`. The sample is the part of the result that begins at
// (x, y).
struct ResizePlan {
  Region rectangle;
  Extent size;
  int x = 0, y = 0;
};

// Returns the plan of a sample. If the sample needs two resizes, returns nullopt without drawing
// random numbers.
std::optional<ResizePlan> plan_resize(Extent image, const ImageParams& params, Random& random);
// Returns whether both sides are exactly halved. In this case, OpenCV averages four pixels instead.
bool halves(const ResizePlan& plan);

struct ResizeAxes {
  ResizeAxis columns, rows;
};
// Returns the mapping of both axes for an image that was decoded at 1/denominator of its size. The
// rectangle's coordinates are divided by `denominator`.
ResizeAxes resize_axes(const ResizePlan& plan, const ImageParams& params, int denominator);

}  // namespace mxlite::io
