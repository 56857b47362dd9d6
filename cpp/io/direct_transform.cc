#include "cpp/io/direct_transform.h"

#include "cpp/io/resize_plan.h"
#include "cpp/io/sample_writer.h"

namespace mxlite::io {
namespace {

void copy_rows(const Window& window, int channels, const ResizePlan& plan, const ImageParams& p,
               const SampleLook& look, void* output) {
  const int x = plan.rectangle.x + plan.x - window.area.x;
  const int y = plan.rectangle.y + plan.y - window.area.y;
  for (int row = 0; row < p.height; ++row)
    write_row(window.data + (y + row) * window.stride + static_cast<int64_t>(x) * channels,
              channels, row, p, look, output);
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
  Random drawing = random;
  const std::optional<ResizePlan> planned = plan_resize(image, p, drawing);
  if (!planned || halves(*planned)) return false;
  const ResizePlan& plan = *planned;
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
  const ResizeAxes axes = resize_axes(plan, p, options.denominator);
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
