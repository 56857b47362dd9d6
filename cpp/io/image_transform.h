// Turns the bytes of an image into one normalized sample, for ImageRecordIter.
#pragma once
#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/fields.h"
#include "cpp/core/dtype.h"
#include "cpp/core/shape.h"
#include "cpp/io/decode.h"

namespace mxlite::io {

// Options of 1.x's iterators, under its names and with its defaults.
struct AugmentOptions {
  int resize = -1;
  bool rand_crop = false, random_resized_crop = false;
  int max_rotate_angle = 0, rotate = -1;
  Shape rotate_list;                                  // angles
  float max_aspect_ratio = 0, min_aspect_ratio = -1;  // -1: not given
  float max_shear_ratio = 0;
  int max_crop_size = -1, min_crop_size = -1;
  float max_random_scale = 1, min_random_scale = 1;
  float max_random_area = 1, min_random_area = 1;
  float max_img_size = 1e10F, min_img_size = 0;
  float brightness = 0, contrast = 0, saturation = 0, pca_noise = 0;
  int random_h = 0, random_s = 0, random_l = 0;
  int fill_value = 255, inter_method = 1, pad = 0;
  bool mirror = false, rand_mirror = false;
  float scale = 1, max_random_contrast = 0, max_random_illumination = 0;

  static constexpr auto fields() {
    using P = AugmentOptions;
    return std::tuple(
        field("resize", &P::resize, "New length of the shorter side, before all others; -1: none."),
        field("rand_crop", &P::rand_crop, "Cut a random place out, not the center."),
        field("random_resized_crop", &P::random_resized_crop,
              "Cut a random area of a random ratio out and resize it."),
        field("max_rotate_angle", &P::max_rotate_angle, "Largest random turn in degrees.")
            .at_least(0),
        field("rotate", &P::rotate, "Turn by this angle in degrees if it is above 0."),
        field("rotate_list", &P::rotate_list, "Angles in degrees, of which one is drawn."),
        field("max_aspect_ratio", &P::max_aspect_ratio, "Largest change of width to height.")
            .at_least(0),
        field("min_aspect_ratio", &P::min_aspect_ratio,
              "Smallest ratio with random_resized_crop; -1: 1 - max_aspect_ratio."),
        field("max_shear_ratio", &P::max_shear_ratio, "Largest random shear.").at_least(0),
        field("max_crop_size", &P::max_crop_size, "Largest side of a random square; -1: none."),
        field("min_crop_size", &P::min_crop_size, "Smallest side of a random square; -1: none."),
        field("max_random_scale", &P::max_random_scale, "Largest random factor of the size."),
        field("min_random_scale", &P::min_random_scale, "Smallest random factor of the size.")
            .above(0),
        field("max_random_area", &P::max_random_area, "Largest share with random_resized_crop.")
            .at_most(1),
        field("min_random_area", &P::min_random_area, "Smallest share with random_resized_crop.")
            .above(0),
        field("max_img_size", &P::max_img_size, "Upper bound of the sides of a turned image."),
        field("min_img_size", &P::min_img_size, "Lower bound of the sides of a turned image."),
        field("brightness", &P::brightness, "Range of random brightness."),
        field("contrast", &P::contrast, "Range of random contrast."),
        field("saturation", &P::saturation, "Range of random saturation."),
        field("pca_noise", &P::pca_noise, "Deviation of noise along the colors' main axes.")
            .at_least(0),
        field("random_h", &P::random_h, "Range of random hue.").at_least(0),
        field("random_s", &P::random_s, "Range of random saturation, in HSL.").at_least(0),
        field("random_l", &P::random_l, "Range of random lightness.").at_least(0),
        field("fill_value", &P::fill_value, "Value of pixels outside of the image."),
        field("inter_method", &P::inter_method,
              "Interpolation: 0 to 4 as in OpenCV, 9 by the sizes, 10 drawn."),
        field("pad", &P::pad, "Pixels added on each side.").at_least(0),
        field("mirror", &P::mirror, "Mirror every image."),
        field("rand_mirror", &P::rand_mirror, "Mirror half of the images."),
        field("scale", &P::scale, "Factor of the values, after the mean."),
        field("max_random_contrast", &P::max_random_contrast,
              "Range of the random factor of the values.")
            .at_least(0),
        field("max_random_illumination", &P::max_random_illumination,
              "Range of the random summand of the values.")
            .at_least(0));
  }
};

struct ImageParams : AugmentOptions {
  int channels = 3, height = 0, width = 0;
  DType dtype = DType::kFloat32;  // float32, uint8 or int8
  std::array<float, 4> mean = {0, 0, 0, 0}, std = {1, 1, 1, 1};
  std::vector<float> mean_image;  // (channels, height, width); replaces mean
};

using Random = std::mt19937_64;

inline float uniform(Random& random, float low, float high) {
  if (low == high) return low;
  return std::uniform_real_distribution<float>(low, high)(random);
}
inline int uniform_int(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// Memory that a thread reuses from sample to sample.
struct TransformScratch {
  Window window;
};

// Throws kValue for contradictory params.
void check_image_params(const ImageParams& params);
// Writes channels * height * width elements; name is for errors. Throws kRecord for bad images.
void transform_image(std::span<const std::byte> bytes, const ImageParams& params, Random& random,
                     const std::string& name, TransformScratch& scratch, void* output);

}  // namespace mxlite::io
