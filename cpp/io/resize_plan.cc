#include "cpp/io/resize_plan.h"

namespace mxlite::io {

bool halves(const ResizePlan& plan) {
  return plan.rectangle.width == 2 * plan.size.width &&
         plan.rectangle.height == 2 * plan.size.height;
}

std::optional<ResizePlan> plan_resize(Extent image, const ImageParams& p, Random& random) {
  const Extent target{p.width, p.height}, resized = short_side_size(image, p);
  const bool cuts = p.random_resized_crop || p.max_crop_size > 0;
  const bool too_small = resized.width < target.width || resized.height < target.height;
  if (!(resized == image) && (cuts || too_small)) return std::nullopt;
  ResizePlan plan;
  if (cuts) plan.rectangle = drawn_rectangle(image, p, random);
  if (plan.rectangle.width > 0) {
    plan.size = target;
    return plan;
  }
  plan.rectangle = {0, 0, image.width, image.height};
  plan.size = too_small ? enlarged_size(image, p) : resized;
  const Region crop = placed(plan.size, target, p.rand_crop, random);
  plan.x = crop.x;
  plan.y = crop.y;
  return plan;
}

ResizeAxes resize_axes(const ResizePlan& plan, const ImageParams& p, int denominator) {
  const auto axis = [d = denominator](int from, int length, int size, int begin, int count) {
    ResizeAxis result;
    result.scale = static_cast<double>(length) / d / size;
    result.origin = static_cast<double>(from) / d;
    result.lowest = from / d;
    result.size = scaled_side(from + length, d) - result.lowest;
    result.begin = begin;
    result.count = count;
    return result;
  };
  return {axis(plan.rectangle.x, plan.rectangle.width, plan.size.width, plan.x, p.width),
          axis(plan.rectangle.y, plan.rectangle.height, plan.size.height, plan.y, p.height)};
}

}  // namespace mxlite::io
