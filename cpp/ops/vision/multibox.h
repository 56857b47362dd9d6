// Anchors, training targets and detections of single-shot detectors. Boxes are (xmin, ymin, xmax,
// ymax) relative to the image.
#pragma once
#include <tuple>
#include <vector>

#include "cpp/ops/attr.h"

namespace mxlite {

struct MultiBoxPriorParams {
  std::vector<double> sizes = {1}, ratios = {1};
  bool clip = false;
  std::vector<double> steps = {-1, -1}, offsets = {0.5, 0.5};
  static constexpr auto fields() {
    using P = MultiBoxPriorParams;
    return std::tuple(
        field("sizes", &P::sizes, "Heights of the boxes; all with the first ratio.").at_least(0),
        field("ratios", &P::ratios, "Width by height; all with the first size.").above(0),
        field("clip", &P::clip, "Cut boxes at the border of the image."),
        field("steps", &P::steps, "Distances (y, x) of the boxes; not above 0: one per position."),
        field("offsets", &P::offsets, "Middle (y, x) of the first box, in steps.").between(0, 1));
  }
};

struct MultiBoxTargetParams {
  float overlap_threshold = 0.5f, ignore_label = -1, negative_mining_ratio = -1;
  float negative_mining_thresh = 0.5f;
  int minimum_negative_samples = 0;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  static constexpr auto fields() {
    using P = MultiBoxTargetParams;
    return std::tuple(
        field("overlap_threshold", &P::overlap_threshold,
              "An anchor with a larger overlap with a label is positive."),
        field("ignore_label", &P::ignore_label, "Class target of anchors that do not count."),
        field("negative_mining_ratio", &P::negative_mining_ratio,
              "How many negative anchors count per positive one; not above 0: all."),
        field("negative_mining_thresh", &P::negative_mining_thresh,
              "Only anchors with a smaller overlap are mined."),
        field("minimum_negative_samples", &P::minimum_negative_samples,
              "How many negative anchors are mined at least.")
            .at_least(0),
        field("variances", &P::variances, "Divisors of the four location targets.").above(0));
  }
};

struct MultiBoxDetectionParams {
  bool clip = true;
  float threshold = 0.01f;
  int background_id = 0;
  float nms_threshold = 0.5f;
  bool force_suppress = false;
  std::vector<double> variances = {0.1, 0.1, 0.2, 0.2};
  int nms_topk = -1;
  static constexpr auto fields() {
    using P = MultiBoxDetectionParams;
    return std::tuple(
        field("clip", &P::clip, "Cut boxes at the border of the image."),
        field("threshold", &P::threshold, "Detections with a smaller probability are dropped."),
        field("background_id", &P::background_id,
              "Not used: class 0 is the background, as in 1.x."),
        field("nms_threshold", &P::nms_threshold,
              "A detection whose overlap with a better one reaches this is suppressed; not above 0 "
              "or above 1: none, and no order."),
        field("force_suppress", &P::force_suppress, "Detections of different classes compete too."),
        field("variances", &P::variances, "Factors of the four location predictions."),
        field("nms_topk", &P::nms_topk, "How many detections are compared at most; below 1: all."));
  }
};

}  // namespace mxlite
