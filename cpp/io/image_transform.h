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

// Options of MXNet 1.x's iterators with the same names and defaults.
struct AugmentOptions {
  bool apply_exif_orientation = true;
  int resize = -1;
  bool rand_crop = false, random_resized_crop = false;
  int max_rotate_angle = 0, rotate = -1;
  Shape rotate_list;                                  // angles
  float max_aspect_ratio = 0, min_aspect_ratio = -1;  // -1 means not given
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

  MX_FIELDS(
      AugmentOptions,
      MX_FIELD(apply_exif_orientation,
               "Turn images upright as their Exif orientation says; False: keep pixels as stored."),
      MX_FIELD(resize,
               "Length in pixels that the shorter side is resized to, before cropping; -1: no "
               "resize."),
      MX_FIELD(rand_crop, "Crop at a random position instead of the center."),
      MX_FIELD(random_resized_crop,
               "Crop a random area of a random aspect ratio and resize it to data_shape."),
      MX_FIELD(max_rotate_angle, "Largest random rotation in degrees, in either direction.")
          .at_least(0),
      MX_FIELD(rotate, "Rotate every image by this angle in degrees if it is above 0."),
      MX_FIELD(rotate_list, "Angles in degrees, of which one is drawn for each image."),
      MX_FIELD(
          max_aspect_ratio,
          "Largest random change of the ratio of width to height; with random_resized_crop and "
          "min_aspect_ratio, the largest ratio.")
          .at_least(0),
      MX_FIELD(min_aspect_ratio,
               "Smallest ratio of random_resized_crop; -1: ratios from 1 - max_aspect_ratio to 1 + "
               "max_aspect_ratio."),
      MX_FIELD(max_shear_ratio, "Largest random shear, in either direction.").at_least(0),
      MX_FIELD(max_crop_size,
               "Largest side of a random square that is cropped and resized; -1: no such crop."),
      MX_FIELD(min_crop_size, "Smallest side of that square; -1: 1."),
      MX_FIELD(max_random_scale, "Largest random factor of the image's size."),
      MX_FIELD(min_random_scale, "Smallest random factor of the image's size.").above(0),
      MX_FIELD(max_random_area, "Largest share of the area that random_resized_crop takes.")
          .at_most(1),
      MX_FIELD(min_random_area, "Smallest share of the area that random_resized_crop takes.")
          .above(0),
      MX_FIELD(max_img_size, "Upper bound of the sides after a rotation or scaling."),
      MX_FIELD(min_img_size, "Lower bound of the sides after a rotation or scaling."),
      MX_FIELD(brightness, "Largest random change of brightness, as a share."),
      MX_FIELD(contrast, "Largest random change of contrast, as a share."),
      MX_FIELD(saturation, "Largest random change of saturation, as a share."),
      MX_FIELD(pca_noise,
               "Standard deviation of noise along the principal axes of ImageNet's colors.")
          .at_least(0),
      MX_FIELD(random_h, "Largest random change of hue (0 to 180).").at_least(0),
      MX_FIELD(random_s, "Largest random change of saturation (0 to 255).").at_least(0),
      MX_FIELD(random_l, "Largest random change of lightness (0 to 255).").at_least(0),
      MX_FIELD(fill_value, "Value of pixels that lie outside of the image."),
      MX_FIELD(inter_method,
               "Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to "
               "enlarge and "
               "area to shrink, 10 drawn at random."),
      MX_FIELD(pad, "Pixels that are added on each side.").at_least(0),
      MX_FIELD(mirror, "Mirror every image."), MX_FIELD(rand_mirror, "Mirror half of the images."),
      MX_FIELD(scale, "Factor of the values, after the mean is subtracted."),
      MX_FIELD(max_random_contrast,
               "Largest random change of the factor of the values, as a share.")
          .at_least(0),
      MX_FIELD(max_random_illumination, "Largest random number that is added to the values.")
          .at_least(0))
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

// Memory that a thread reuses for each sample.
struct TransformScratch {
  Window window;
};

// Returns the Exif orientation to apply: the orientation of the image's tag, or 1 if params ignore
// the tag.
inline int used_orientation(std::span<const std::byte> bytes, const ImageParams& params) {
  return params.apply_exif_orientation ? exif_orientation(bytes) : 1;
}

// Throws a value error if params contradict each other.
void check_image_params(const ImageParams& params);
// Writes channels * height * width elements. Throws a record error that begins with `name` for bad
// images.
void transform_image(std::span<const std::byte> bytes, const ImageParams& params, Random& random,
                     const std::string& name, TransformScratch& scratch, void* output);

}  // namespace mxlite::io
