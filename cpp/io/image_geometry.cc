#include "cpp/io/image_geometry.h"

#include <algorithm>
#include <cmath>

namespace mxlite::io {
namespace {

// Draws a rectangle of random area and aspect ratio. Returns an empty rectangle if none of ten
// tries fits, as in 1.x.
Region random_rectangle(Extent outer, const ImageParams& p, Random& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float area = uniform(random, p.min_random_area, p.max_random_area) *
                       static_cast<float>(outer.width) * static_cast<float>(outer.height);
    const float low = p.min_aspect_ratio < 0 ? 1 - p.max_aspect_ratio : p.min_aspect_ratio;
    const float high = p.min_aspect_ratio < 0 ? 1 + p.max_aspect_ratio : p.max_aspect_ratio;
    const float ratio = uniform(random, low, high);
    Extent size{static_cast<int>(std::lround(std::sqrt(area * ratio))),
                static_cast<int>(std::lround(std::sqrt(area / ratio)))};
    if (uniform(random, 0, 1) > 0.5F) std::swap(size.width, size.height);
    if (size.width > 0 && size.height > 0 && size.width <= outer.width &&
        size.height <= outer.height)
      return placed(outer, size, true, random);
  }
  return {};
}

}  // namespace

Extent short_side_size(Extent image, const ImageParams& params) {
  if (params.resize <= 0) return image;
  const int64_t side = params.resize;
  if (image.height > image.width)
    return {params.resize, static_cast<int>(side * image.height / image.width)};
  return {static_cast<int>(side * image.width / image.height), params.resize};
}

Extent enlarged_size(Extent image, const ImageParams& p) {
  const double factor = std::max(static_cast<double>(p.height) / image.height,
                                 static_cast<double>(p.width) / image.width);
  return {std::max(p.width, static_cast<int>(std::lround(factor * image.width))),
          std::max(p.height, static_cast<int>(std::lround(factor * image.height)))};
}

Region placed(Extent outer, Extent inner, bool at_random, Random& random) {
  const int x = outer.width - inner.width, y = outer.height - inner.height;
  if (!at_random) return {x / 2, y / 2, inner.width, inner.height};
  const int top = uniform_int(random, 0, y), left = uniform_int(random, 0, x);
  return {left, top, inner.width, inner.height};
}

Region drawn_rectangle(Extent image, const ImageParams& p, Random& random) {
  if (p.random_resized_crop) return random_rectangle(image, p, random);
  if (p.max_crop_size <= 0) return {};
  const int limit = std::min({p.max_crop_size, image.width, image.height});
  const int side = uniform_int(random, std::min(std::max(p.min_crop_size, 1), limit), limit);
  return placed(image, {side, side}, p.rand_crop, random);
}

bool warps(const ImageParams& p) {
  return p.max_rotate_angle > 0 || p.rotate > 0 || p.rotate_list.ndim() > 0 ||
         p.max_shear_ratio > 0 || p.max_random_scale != 1 || p.min_random_scale != 1 ||
         (!p.random_resized_crop && p.max_aspect_ratio != 0) || p.max_img_size != 1e10F ||
         p.min_img_size != 0;
}

int scaled_decode(Extent whole, Extent wanted) {
  int denominator = 1;
  while (denominator < 8 && whole.width / (2 * denominator) >= wanted.width &&
         whole.height / (2 * denominator) >= wanted.height)
    denominator *= 2;
  return denominator;
}

}  // namespace mxlite::io
