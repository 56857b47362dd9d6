// box_iou, box_encode and box_decode. A box is four numbers: (xmin, ymin, xmax, ymax) in format
// corner, or (x, y, width, height) in format center, where (x, y) is the box's center.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class BoxFormat : uint8_t { kCorner, kCenter };
template <>
struct EnumNames<BoxFormat> {
  static constexpr std::array<std::pair<const char*, BoxFormat>, 2> names = {
      {{"corner", BoxFormat::kCorner}, {"center", BoxFormat::kCenter}}};
};

struct BoxIouParams {
  BoxFormat format = BoxFormat::kCorner;
  static constexpr auto fields() {
    return std::tuple(field("format", &BoxIouParams::format,
                            "corner: (xmin, ymin, xmax, ymax); center: (x, y, width, height)."));
  }
};

struct BoxDecodeParams {
  float std0 = 1, std1 = 1, std2 = 1, std3 = 1, clip = -1;
  BoxFormat format = BoxFormat::kCenter;
  static constexpr auto fields() {
    using P = BoxDecodeParams;
    return std::tuple(
        field("std0", &P::std0, "Factor of the horizontal offset."),
        field("std1", &P::std1, "Factor of the vertical offset."),
        field("std2", &P::std2, "Factor of the logarithm of the width."),
        field("std3", &P::std3, "Factor of the logarithm of the height."),
        field("clip", &P::clip, "Largest logarithm of width and height; not above 0: no limit."),
        field("format", &P::format, "Format of the anchors."));
  }
};

}  // namespace mxlite
