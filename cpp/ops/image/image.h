// Image operators for (height, width, channels) arrays or batches of them, of uint8 or a float
// type. The operators are available in nd.image without the prefix _image_.
#pragma once
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ImageNormalizeParams {
  std::vector<double> mean = {0, 0, 0, 0};
  std::vector<double> std = {1, 1, 1, 1};
  MX_FIELDS(ImageNormalizeParams, MX_FIELD(mean, "One number, or one number for each channel."),
            MX_FIELD(std, "One number, or one number for each channel."))
};

struct ImageCropParams {
  int64_t x = 0, y = 0, width = 0, height = 0;
  MX_FIELDS(ImageCropParams,
            MX_REQUIRED_FIELD(x, "First column of the rectangle.").between(0, kMaxSize),
            MX_REQUIRED_FIELD(y, "First row of the rectangle.").between(0, kMaxSize),
            MX_REQUIRED_FIELD(width, "Width of the rectangle in pixels.").between(1, kMaxSize),
            MX_REQUIRED_FIELD(height, "Height of the rectangle in pixels.").between(1, kMaxSize))
};

struct ImageResizeParams {
  Shape size;
  bool keep_ratio = false;
  int interp = 1;
  MX_FIELDS(ImageResizeParams,
            MX_FIELD(size, "Width and height of the output, or one number for both.")
                .between(1, kMaxSize),
            MX_FIELD(keep_ratio,
                     "Whether a single number is the length of the shorter side and the ratio of "
                     "width to height is kept."),
            MX_FIELD(interp, "Interpolation: 0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.")
                .between(0, 4))
};

struct ImageFactorParams {  // shared by the random_brightness family
  double min_factor = 0, max_factor = 0;
  MX_FIELDS(ImageFactorParams,
            MX_REQUIRED_FIELD(min_factor, "Smallest value that can be drawn.").at_least(0),
            MX_REQUIRED_FIELD(max_factor, "Largest value that can be drawn.").at_least(0))
};

struct ImageJitterParams {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  MX_FIELDS(ImageJitterParams,
            MX_REQUIRED_FIELD(
                brightness,
                "Largest change x: the factor is drawn between 1 - x and 1 + x; 0: no change.")
                .at_least(0),
            MX_REQUIRED_FIELD(
                contrast,
                "Largest change x: the factor is drawn between 1 - x and 1 + x; 0: no change.")
                .at_least(0),
            MX_REQUIRED_FIELD(
                saturation,
                "Largest change x: the factor is drawn between 1 - x and 1 + x; 0: no change.")
                .at_least(0),
            MX_REQUIRED_FIELD(
                hue,
                "Largest turn x: the angle is drawn between -x and x full circles; 0: no change.")
                .at_least(0))
};

struct ImageLightingParams {
  std::vector<double> alpha;
  MX_FIELDS(ImageLightingParams,
            MX_REQUIRED_FIELD(alpha, "Factors of the three principal components."))
};

struct ImageRandomLightingParams {
  double alpha_std = 0.05;
  MX_FIELDS(
      ImageRandomLightingParams,
      MX_FIELD(alpha_std, "Standard deviation of the three factors, whose mean is 0.").at_least(0))
};

// Height, width and channels of data, and the number of images in it.
struct ImageView {
  int64_t count, height, width, channels;
};
ImageView image_view(const char* op, const TensorSpec& data);
// Requires 3 dimensions, or 4 with a batch, and uint8 or a float type.
void check_image(const char* op, const TensorSpec& data);

constexpr uint64_t kRandomPerImage = 8;  // number of counters; every op uses fewer

}  // namespace mxlite
