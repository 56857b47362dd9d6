// Turns the bytes of an image into one normalized sample, for ImageRecordIter.
#pragma once
#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/io/decode.h"

namespace mxlite::io {

// Names and defaults are those of MXNet 1.x.
struct ImageParams {
  int channels = 3, height = 0, width = 0;
  DType dtype = DType::kFloat32;  // float32, uint8 or int8
  int resize = -1;
  bool rand_crop = false, random_resized_crop = false;
  int max_rotate_angle = 0, rotate = -1;
  std::vector<int> rotate_list;
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
  std::array<float, 4> mean = {0, 0, 0, 0}, std = {1, 1, 1, 1};
  std::vector<float> mean_image;  // (channels, height, width); replaces mean
  float scale = 1, max_random_contrast = 0, max_random_illumination = 0;
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
