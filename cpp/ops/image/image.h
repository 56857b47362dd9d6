// Image operators: (height, width, channels) or a batch of them, uint8 or a float type. They live
// in nd.image without the prefix _image_.
#pragma once
#include <tuple>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite {

struct ImageNormalizeParams {
  std::vector<double> mean = {0, 0, 0, 0};
  std::vector<double> std = {1, 1, 1, 1};
  static constexpr auto fields() {
    return std::tuple(field("mean", &ImageNormalizeParams::mean, "One number or one per channel."),
                      field("std", &ImageNormalizeParams::std, "One number or one per channel."));
  }
};

struct ImageCropParams {
  int64_t x = 0, y = 0, width = 0, height = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("x", &ImageCropParams::x, "Left edge.").between(0, kMaxSize),
        required_field("y", &ImageCropParams::y, "Top edge.").between(0, kMaxSize),
        required_field("width", &ImageCropParams::width, "Width of the part.").between(1, kMaxSize),
        required_field("height", &ImageCropParams::height, "Height of the part.")
            .between(1, kMaxSize));
  }
};

struct ImageResizeParams {
  Shape size;
  bool keep_ratio = false;
  int interp = 1;
  static constexpr auto fields() {
    return std::tuple(
        field("size", &ImageResizeParams::size, "(width, height), or one number for both.")
            .between(1, kMaxSize),
        field("keep_ratio", &ImageResizeParams::keep_ratio,
              "With one number: it is the length of the shorter side."),
        field("interp", &ImageResizeParams::interp,
              "0 nearest, 1 bilinear, 2 bicubic, 3 area, 4 Lanczos.")
            .between(0, 4));
  }
};

struct ImageFactorParams {  // shared by the random_brightness family
  double min_factor = 0, max_factor = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("min_factor", &ImageFactorParams::min_factor, "Smallest factor.")
            .at_least(0),
        required_field("max_factor", &ImageFactorParams::max_factor, "Largest factor.")
            .at_least(0));
  }
};

struct ImageJitterParams {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  static constexpr auto fields() {
    return std::tuple(
        required_field("brightness", &ImageJitterParams::brightness, "Largest change; 0: none.")
            .at_least(0),
        required_field("contrast", &ImageJitterParams::contrast, "Largest change; 0: none.")
            .at_least(0),
        required_field("saturation", &ImageJitterParams::saturation, "Largest change; 0: none.")
            .at_least(0),
        required_field("hue", &ImageJitterParams::hue, "Largest change; 0: none.").at_least(0));
  }
};

struct ImageLightingParams {
  std::vector<double> alpha;
  static constexpr auto fields() {
    return std::tuple(required_field("alpha", &ImageLightingParams::alpha,
                                     "Factors of the three principal colours."));
  }
};

struct ImageRandomLightingParams {
  double alpha_std = 0.05;
  static constexpr auto fields() {
    return std::tuple(field("alpha_std", &ImageRandomLightingParams::alpha_std,
                            "Standard deviation of the factors.")
                          .at_least(0));
  }
};

// Height, width and channels of data and how many images it holds.
struct ImageView {
  int64_t count, height, width, channels;
};
ImageView image_view(const char* op, const TensorSpec& data);
// 3 dimensions, or 4 with a batch, of uint8 or a float type.
void check_image(const char* op, const TensorSpec& data);

constexpr uint64_t kRandomPerImage = 8;  // counters; every op uses fewer

}  // namespace mxlite
