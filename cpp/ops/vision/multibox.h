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
  MX_FIELDS(MultiBoxPriorParams,
            MX_FIELD(sizes, "Heights of the boxes; all with the first ratio.").at_least(0),
            MX_FIELD(ratios, "Width by height; all with the first size.").above(0),
            MX_FIELD(clip, "Cut boxes at the border of the image."),
            MX_FIELD(steps, "Distances (y, x) of the boxes; not above 0: one per position."),
            MX_FIELD(offsets, "Middle (y, x) of the first box, in steps.").between(0, 1))
};

struct MultiBoxTargetParams {
  float overlap_threshold = 0.5f, ignore_label = -1, negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int minimum_negative_samples = 0;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  MX_FIELDS(MultiBoxTargetParams,
            MX_FIELD(overlap_threshold,
                     "An anchor with a larger overlap with a label is positive."),
            MX_FIELD(ignore_label, "Class target of anchors that do not count."),
            MX_FIELD(negative_mining_ratio,
                     "How many negative anchors count per positive one; not above 0: all."),
            MX_FIELD(negative_mining_thresh, "Only anchors with a smaller overlap are mined."),
            MX_FIELD(minimum_negative_samples, "How many negative anchors are mined at least.")
                .at_least(0),
            MX_FIELD(variances, "Divisors of the four location targets.").above(0))
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
      MultiBoxDetectionParams, MX_FIELD(clip, "Cut boxes at the border of the image."),
      MX_FIELD(threshold, "Detections with a smaller probability are dropped."),
      MX_FIELD(background_id, "Not used: class 0 is the background, as in 1.x."),
      MX_FIELD(
          nms_threshold,
          "A detection whose overlap with a better one reaches this is suppressed; not above 0 "
          "or above 1: none, and no order."),
      MX_FIELD(force_suppress, "Detections of different classes compete too."),
      MX_FIELD(variances, "Factors of the four location predictions."),
      MX_FIELD(nms_topk, "How many detections are compared at most; below 1: all."))
};

}  // namespace mxlite
