// Turns an image and its boxes into one sample of a detection set, for ImageDetRecordIter.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Limits on a cropped rectangle: it is allowed if some box meets all of them.
struct CropSampler {
  float min_scale = 0, max_scale = 1, min_ratio = 1, max_ratio = 1;
  float min_overlap = 0, max_overlap = 1;                  // overlap is intersection over union
  float min_sample_coverage = 0, max_sample_coverage = 1;  // intersection over the rectangle
  float min_object_coverage = 0, max_object_coverage = 1;  // intersection over the box
  int trials = 25;
};

enum class ResizeMode : uint8_t { kForce, kShrink, kFit };

// Names and defaults are those of MXNet 1.x.
struct DetectionParams {
  float rand_crop_prob = 0;
  std::vector<CropSampler> samplers;
  bool emit_center = true;  // after a crop boxes go whose center is outside, else by the next
  float emit_overlap_thresh = 0.3F;
  float rand_pad_prob = 0, max_pad_scale = 1;
  int max_random_hue = 0, max_random_saturation = 0, max_random_illumination = 0;
  float random_hue_prob = 0, random_saturation_prob = 0, random_illumination_prob = 0;
  float max_random_contrast = 0, random_contrast_prob = 0;
  float rand_mirror_prob = 0;
  ResizeMode resize_mode = ResizeMode::kForce;
};

// Label of a record: header width, object width, ..., objects; an object is class, left, top,
// right, bottom, ..., with coordinates as fractions of the image's sides.
struct BoxLabel {
  std::vector<float> header;
  int64_t object_width = 0;
  std::vector<float> objects;

  int64_t size() const { return static_cast<int64_t>(header.size() + objects.size()); }
};

// Throws kRecord naming `name` for labels that do not have this form.
BoxLabel parse_box_label(std::span<const float> raw, const std::string& name);

struct DetectionSample {
  BoxLabel label;
  int height = 0, width = 0;  // the image's part of the sample: less in modes shrink, fit
};

// Like transform_image; sample.label follows the changes of the image.
void transform_detection(std::span<const std::byte> bytes, const ImageParams& params,
                         const DetectionParams& detection, Random& random, const std::string& name,
                         DetectionSample& sample, void* output);

}  // namespace mxlite::io
