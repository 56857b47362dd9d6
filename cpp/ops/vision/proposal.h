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
      MX_FIELD(rpn_pre_nms_top_n,
               "Number of boxes with the highest scores that are compared; 0 or less: all."),
      MX_FIELD(rpn_post_nms_top_n, "Number of regions returned for each image.").at_least(0),
      MX_FIELD(threshold,
               "Boxes whose intersection over union with a box of higher score is larger than this "
               "value are dropped."),
      MX_FIELD(
          rpn_min_size,
          "Boxes with a side shorter than this many pixels of the original image get score -1."),
      MX_FIELD(scales, "Sizes of the anchors in units of feature_stride.").above(0),
      MX_FIELD(ratios, "Ratios of height to width of the anchors.").above(0),
      MX_FIELD(feature_stride,
               "Distance of adjacent positions of the feature map, in pixels of the image.")
          .at_least(1),
      MX_FIELD(output_score, "Whether to also return the scores."),
      MX_FIELD(iou_loss,
               "Whether bbox_pred holds offsets of the corners instead of center and size."))
};

}  // namespace mxlite
