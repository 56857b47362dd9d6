// Proposal and MultiProposal: regions that a region proposal network finds in an image or a batch.
#pragma once
#include <tuple>
#include <vector>

#include "cpp/ops/attr.h"

namespace mxlite {

struct ProposalParams {
  int rpn_pre_nms_top_n = 6000, rpn_post_nms_top_n = 300;
  float threshold = 0.7f;
  int rpn_min_size = 16;
  std::vector<double> scales = {4, 8, 16, 32}, ratios = {0.5, 1, 2};
  int feature_stride = 16;
  bool output_score = false, iou_loss = false;
  static constexpr auto fields() {
    using P = ProposalParams;
    return std::tuple(
        field("rpn_pre_nms_top_n", &P::rpn_pre_nms_top_n,
              "How many of the best boxes are compared; below 1: all."),
        field("rpn_post_nms_top_n", &P::rpn_post_nms_top_n, "How many regions an image gets.")
            .at_least(0),
        field("threshold", &P::threshold,
              "A box whose intersection over union with a better one is above this is dropped."),
        field("rpn_min_size", &P::rpn_min_size,
              "Boxes with a shorter side, in pixels of the original image, get score -1."),
        field("scales", &P::scales, "Sizes of the anchors, in strides.").above(0),
        field("ratios", &P::ratios, "Height by width of the anchors.").above(0),
        field("feature_stride", &P::feature_stride, "Pixels between two positions.").at_least(1),
        field("output_score", &P::output_score, "Return the scores too."),
        field("iou_loss", &P::iou_loss, "bbox_pred moves the corners instead of middle and size."));
  }
};

}  // namespace mxlite
