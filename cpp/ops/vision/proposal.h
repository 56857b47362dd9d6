// Proposal and MultiProposal: regions that a region proposal network finds in an image or a batch.
#pragma once
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
  MX_FIELDS(
      ProposalParams,
      MX_FIELD(rpn_pre_nms_top_n, "How many of the best boxes are compared; below 1: all."),
      MX_FIELD(rpn_post_nms_top_n, "How many regions an image gets.").at_least(0),
      MX_FIELD(threshold,
               "A box whose intersection over union with a better one is above this is dropped."),
      MX_FIELD(rpn_min_size,
               "Boxes with a shorter side, in pixels of the original image, get score -1."),
      MX_FIELD(scales, "Sizes of the anchors, in strides.").above(0),
      MX_FIELD(ratios, "Height by width of the anchors.").above(0),
      MX_FIELD(feature_stride, "Pixels between two positions.").at_least(1),
      MX_FIELD(output_score, "Return the scores too."),
      MX_FIELD(iou_loss, "bbox_pred moves the corners instead of middle and size."))
};

}  // namespace mxlite
