// Anchors, training targets and detections of single-shot detectors. Boxes are (xmin, ymin, xmax,
// ymax) relative to the image.
#pragma once
#include <vector>

#include "cpp/ops/attr.h"

namespace mxlite {

struct MultiBoxPriorParams {
  std::vector<double> sizes = {1}, ratios = {1};
  bool clip = false;
  std::vector<double> steps = {-1, -1}, offsets = {0.5, 0.5};
  MX_FIELDS(
      MultiBoxPriorParams,
      MX_FIELD(sizes,
               "Sizes of the boxes relative to the image; a box has the height size / sqrt(ratio).")
          .at_least(0),
      MX_FIELD(ratios, "Ratios of width to height of the boxes.").above(0),
      MX_FIELD(clip, "Whether to clip boxes to the image, [0, 1]."),
      MX_FIELD(steps,
               "Distances (y, x) of adjacent positions, relative to the image; 0 or less: 1 / "
               "height and 1 / width of data."),
      MX_FIELD(offsets, "Center (y, x) of the boxes at the first position, in units of steps.")
          .between(0, 1))
};

struct MultiBoxTargetParams {
  float overlap_threshold = 0.5f, ignore_label = -1, negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int minimum_negative_samples = 0;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  MX_FIELDS(
      MultiBoxTargetParams,
      MX_FIELD(overlap_threshold,
               "Anchors whose intersection over union with a label is larger than this value are "
               "positive."),
      MX_FIELD(ignore_label, "Class target of anchors that the loss must ignore."),
      MX_FIELD(negative_mining_ratio,
               "Largest number of negative anchors for each positive one; 0 or less: all anchors "
               "without a label are negative."),
      MX_FIELD(negative_mining_thresh,
               "Only anchors whose largest intersection over union is below this value can be "
               "chosen as negative."),
      MX_FIELD(minimum_negative_samples,
               "Smallest number of negative anchors that are chosen if negative_mining_ratio is "
               "above 0.")
          .at_least(0),
      MX_FIELD(variances,
               "Divisors of the four targets of an anchor: center x, center y, width, height.")
          .above(0))
};

struct MultiBoxDetectionParams {
  bool clip = true;
  float threshold = 0.01f;
  int background_id = 0;
  float nms_threshold = 0.5f;
  bool force_suppress = false;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  int nms_topk = -1;
  MX_FIELDS(
      MultiBoxDetectionParams, MX_FIELD(clip, "Whether to clip boxes to the image, [0, 1]."),
      MX_FIELD(threshold, "Smallest probability of a detection; others are dropped."),
      MX_FIELD(background_id, "Has no effect: class 0 is always the background, as in MXNet 1.x."),
      MX_FIELD(
          nms_threshold,
          "Detections whose intersection over union with a more probable one is at least this "
          "value are suppressed; outside of (0, 1], detections are neither suppressed nor sorted."),
      MX_FIELD(force_suppress, "Whether detections also suppress detections of other classes."),
      MX_FIELD(variances,
               "Factors of the four predictions of an anchor: center x, center y, width, height."),
      MX_FIELD(nms_topk, "Largest number of detections that are compared; 0 or less: all."))
};

}  // namespace mxlite
