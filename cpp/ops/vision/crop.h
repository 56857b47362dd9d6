// Crop: cuts (batch, channels, height, width) data to size h_w or to the size of a second input.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct CropParams {
  Shape offset = {0, 0}, h_w = {0, 0};
  bool center_crop = false;
  MX_FIELDS(CropParams,
            MX_FIELD(offset, "First row and column of the rectangle.").between(0, kMaxSize),
            MX_FIELD(h_w, "Height and width of the rectangle; ignored if a second input is given.")
                .between(0, kMaxSize),
            MX_FIELD(center_crop, "Whether to cut out the middle of the image and ignore offset."))
  // Returns the first row and column of the crop.
  std::pair<int64_t, int64_t> start(const Shape& data, const Shape& part) const {
    if (center_crop) return {(data[2] - part[2]) / 2, (data[3] - part[3]) / 2};
    return {offset[0], offset[1]};
  }
};

}  // namespace mxlite
