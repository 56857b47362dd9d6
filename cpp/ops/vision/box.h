// box_iou, box_encode and box_decode. A box is four numbers: (xmin, ymin, xmax, ymax) in format
// corner, or (x, y, width, height) in format center, where (x, y) is the box's center.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

enum class BoxFormat : uint8_t { kCorner, kCenter };
MX_ENUM_NAMES(BoxFormat, {"corner", E::kCorner}, {"center", E::kCenter})

struct BoxIouParams {
  BoxFormat format = BoxFormat::kCorner;
  MX_FIELDS(
      BoxIouParams,
      MX_FIELD(
          format,
          "Format of the boxes; corner: (xmin, ymin, xmax, ymax), center: (x, y, width, height)."))
};

struct BoxDecodeParams {
  float std0 = 1, std1 = 1, std2 = 1, std3 = 1, clip = -1;
  BoxFormat format = BoxFormat::kCenter;
  MX_FIELDS(BoxDecodeParams, MX_FIELD(std0, "Factor of the horizontal offset."),
            MX_FIELD(std1, "Factor of the vertical offset."),
            MX_FIELD(std2, "Factor of the logarithm of the width."),
            MX_FIELD(std3, "Factor of the logarithm of the height."),
            MX_FIELD(clip,
                     "Largest logarithm of the factors of width and height; 0 or less: no limit."),
            MX_FIELD(format,
                     "Format of the anchors; corner: (xmin, ymin, xmax, ymax), center: (x, y, "
                     "width, height)."))
};

}  // namespace mxlite
