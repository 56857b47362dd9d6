// Turns an image and its boxes into one sample of a detection data set, for ImageDetRecordIter.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Limits for random crops. A crop is allowed if at least one box meets all limits. The option names
// are those of MXNet 1.x, whose iterator takes lists with one entry for each sampler.
struct CropSampler {
  float min_scale = 0, max_scale = 1, min_ratio = 1, max_ratio = 1;
  float min_overlap = 0, max_overlap = 1;
  float min_sample_coverage = 0, max_sample_coverage = 1;
  float min_object_coverage = 0, max_object_coverage = 1;
  int trials = 25;

  MX_FIELDS(CropSampler,
            field("min_crop_scales", &P::min_scale,
                  "Smallest side of a crop, as a share of the image's side."),
            field("max_crop_scales", &P::max_scale,
                  "Largest side of a crop, as a share of the image's side."),
            field("min_crop_aspect_ratios", &P::min_ratio,
                  "Smallest ratio of a crop's width to its height."),
            field("max_crop_aspect_ratios", &P::max_ratio,
                  "Largest ratio of a crop's width to its height."),
            field("min_crop_overlaps", &P::min_overlap,
                  "Smallest intersection over union of the crop and a box."),
            field("max_crop_overlaps", &P::max_overlap,
                  "Largest intersection over union of the crop and a box."),
            field("min_crop_sample_coverages", &P::min_sample_coverage,
                  "Smallest share of the crop that a box covers."),
            field("max_crop_sample_coverages", &P::max_sample_coverage,
                  "Largest share of the crop that a box covers."),
            field("min_crop_object_coverages", &P::min_object_coverage,
                  "Smallest share of a box that the crop covers."),
            field("max_crop_object_coverages", &P::max_object_coverage,
                  "Largest share of a box that the crop covers."),
            field("max_crop_trials", &P::trials, "Number of crops that are tried."))
};

enum class ResizeMode : uint8_t { kForce, kShrink, kFit };
enum class CropEmit : uint8_t { kCenter, kOverlap };

}  // namespace mxlite::io

namespace mxlite {

MX_ENUM_NAMES(io::ResizeMode, {"force", E::kForce}, {"shrink", E::kShrink}, {"fit", E::kFit})
MX_ENUM_NAMES(io::CropEmit, {"center", E::kCenter}, {"overlap", E::kOverlap})

}  // namespace mxlite

namespace mxlite::io {

// Options of MXNet 1.x's ImageDetRecordIter with the same names and defaults.
struct DetectionParams {
  std::vector<CropSampler> samplers;
  float rand_crop_prob = 0;
  CropEmit crop_emit_mode = CropEmit::kCenter;
  float emit_overlap_thresh = 0.3F;
  float rand_pad_prob = 0, max_pad_scale = 1;
  int max_random_hue = 0, max_random_saturation = 0, max_random_illumination = 0;
  float random_hue_prob = 0, random_saturation_prob = 0, random_illumination_prob = 0;
  float max_random_contrast = 0, random_contrast_prob = 0;
  float rand_mirror_prob = 0;
  ResizeMode resize_mode = ResizeMode::kForce;
  int64_t label_pad_width = 0;
  float label_pad_value = -1;

  MX_FIELDS(
      DetectionParams, MX_FIELD(rand_crop_prob, "Probability of a random crop."),
      MX_FIELD(crop_emit_mode,
               "Boxes that a crop removes: 'center', those whose center is outside; 'overlap', "
               "those of "
               "which no more than emit_overlap_thresh is left."),
      MX_FIELD(emit_overlap_thresh,
               "Share of a box that must be left with crop_emit_mode='overlap'."),
      MX_FIELD(rand_pad_prob, "Probability of a random border."),
      MX_FIELD(max_pad_scale, "Largest size with the border, as a factor of the image's size."),
      MX_FIELD(max_random_hue, "Largest random change of hue (0 to 180)."),
      MX_FIELD(random_hue_prob, "Probability of a change of hue."),
      MX_FIELD(max_random_saturation, "Largest random change of saturation (0 to 255)."),
      MX_FIELD(random_saturation_prob, "Probability of a change of saturation."),
      MX_FIELD(max_random_illumination, "Largest random change of lightness (0 to 255)."),
      MX_FIELD(random_illumination_prob, "Probability of a change of lightness."),
      MX_FIELD(max_random_contrast, "Largest random change of contrast, as a share."),
      MX_FIELD(random_contrast_prob, "Probability of a change of contrast."),
      MX_FIELD(rand_mirror_prob, "Probability of a mirrored image."),
      MX_FIELD(
          resize_mode,
          "'force': resize to data_shape; 'shrink': only to a smaller size, keeping the ratio; "
          "'fit': "
          "to a smaller or larger size, keeping the ratio."),
      MX_FIELD(label_pad_width,
               "Length of the labels in a batch; 0: that of the longest label in the file."),
      MX_FIELD(label_pad_value, "Value that fills shorter labels."))
};

// Throws a value error unless 0 <= min <= max for all limits of all samplers.
void check_samplers(const std::vector<CropSampler>& samplers);

// Label of a record. In the file, it consists of header width, object width, ..., followed by the
// objects. An object consists of class, left, top, right, bottom, .... Coordinates are fractions of
// the image's size.
struct BoxLabel {
  std::vector<float> header;
  int64_t object_width = 0;
  std::vector<float> objects;

  int64_t size() const { return static_cast<int64_t>(header.size() + objects.size()); }
};

// Throws a record error that begins with `name` if the labels are not in this format.
BoxLabel parse_box_label(std::span<const float> raw, const std::string& name);

struct DetectionSample {
  BoxLabel label;
  int height = 0, width = 0;  // size of the image without padding (modes shrink and fit pad)
};

// Like transform_image, but also applies crops, mirroring and padding to the boxes of sample.label.
void transform_detection(std::span<const std::byte> bytes, const ImageParams& params,
                         const DetectionParams& detection, Random& random, const std::string& name,
                         DetectionSample& sample, void* output);

}  // namespace mxlite::io
