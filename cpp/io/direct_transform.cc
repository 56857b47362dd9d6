#include "cpp/io/direct_transform.h"

#include "cpp/io/image_geometry.h"
#include "cpp/io/linear_resize.h"
#include "cpp/io/sample_writer.h"

namespace mxlite::io {
namespace {

// Resizes `rectangle` of the image to `size`, in which the sample begins at (x, y).
struct ResizePlan {
  Region rectangle;
  Extent size;
  int x = 0, y = 0;
};

// OpenCV averages four pixels when both sides are halved.
bool halves(const ResizePlan& plan) {
  return plan.rectangle.width == 2 * plan.size.width &&
         plan.rectangle.height == 2 * plan.size.height;
}

void copy_rows(const Window& window, int channels, const ResizePlan& plan, const ImageParams& p,
               const SampleLook& look, void* output) {
  const int x = plan.rectangle.x + plan.x - window.area.x;
  const int y = plan.rectangle.y + plan.y - window.area.y;
  for (int row = 0; row < p.height; ++row)
    write_row(window.data + (y + row) * window.stride + static_cast<int64_t>(x) * channels,
              channels, row, p, look, output);
}

struct Axes {
  ResizeAxis columns, rows;
};

// The coordinates of the rectangle are divided by d if the image was decoded at 1/d of its size.
Axes resize_axes(const ResizePlan& plan, const ImageParams& p, int d) {
  const auto axis = [d](int from, int length, int size, int begin, int count) {
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

}  // namespace

bool direct_transform_fits(const ImageParams& p) {
  return p.inter_method == 1 && !warps(p) && p.pad == 0 && p.brightness <= 0 && p.contrast <= 0 &&
         p.saturation <= 0 && p.pca_noise <= 0 && p.random_h <= 0 && p.random_s <= 0 &&
         p.random_l <= 0;
}

bool direct_transform(std::span<const std::byte> bytes, const ImageInfo& info, const ImageParams& p,
                      Random& random, const std::string& name, Window& window, void* output) {
  const Extent image{info.width, info.height}, target{p.width, p.height};
  const Extent resized = short_side_size(image, p);
  const bool cuts = p.random_resized_crop || p.max_crop_size > 0;
  const bool too_small = resized.width < target.width || resized.height < target.height;
  if (!(resized == image) && (cuts || too_small)) return false;
  ResizePlan plan;
  plan.rectangle = {0, 0, image.width, image.height};
  plan.size = resized;
  if (halves(plan)) return false;
  Random drawing = random;
  const Region rectangle = cuts ? drawn_rectangle(image, p, drawing) : Region{};
  if (rectangle.width > 0) {
    plan.rectangle = rectangle;
    plan.size = target;
  } else {
    if (too_small) plan.size = enlarged_size(image, p);
    const Region crop = placed(plan.size, target, p.rand_crop, drawing);
    plan.x = crop.x;
    plan.y = crop.y;
  }
  if (halves(plan)) return false;
  random = drawing;
  DecodeOptions options;
  options.name = name;
  options.order = p.channels == 1 ? ColorOrder::kGray : ColorOrder::kRGBA;
  const int channels = num_channels(options.order);
  const Extent cut{plan.rectangle.width, plan.rectangle.height};
  if (cut == plan.size) {
    decode_window(
        bytes, options,
        {plan.rectangle.x + plan.x, plan.rectangle.y + plan.y, target.width, target.height},
        window);
    copy_rows(window, channels, plan, p, draw_look(p, random), output);
    return true;
  }
  if (info.jpeg) options.denominator = scaled_decode(cut, plan.size);
  const Axes axes = resize_axes(plan, p, options.denominator);
  const LinearTaps columns = column_taps(axes.columns), rows = row_taps(axes.rows);
  decode_window(bytes, options,
                {columns.lowest(), rows.lowest(), columns.end() - columns.lowest(),
                 rows.end() - rows.lowest()},
                window);
  LinearResizer resizer(window, channels, columns, rows);
  const SampleLook look = draw_look(p, random);
  for (int y = 0; y < p.height; ++y) write_row(resizer.row(y), channels, y, p, look, output);
  return true;
}

}  // namespace mxlite::io
