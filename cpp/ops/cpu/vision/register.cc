#include "cpp/ops/vision/register.h"

namespace mxlite {

void register_vision_cpu(OpRegistry& ops) {
  register_bipartite_matching_cpu(ops);
  register_box_cpu(ops);
  register_box_nms_cpu(ops);
  register_correlation_cpu(ops);
  register_crop_cpu(ops);
  register_deformable_convolution_cpu(ops);
  register_deformable_ps_roi_pooling_cpu(ops);
  register_multibox_detection_cpu(ops);
  register_multibox_prior_cpu(ops);
  register_multibox_target_cpu(ops);
  register_proposal_cpu(ops);
  register_ps_roi_pooling_cpu(ops);
  register_roi_align_cpu(ops);
  register_roi_pooling_cpu(ops);
  register_rotated_roi_align_cpu(ops);
  register_sampling_grid_cpu(ops);
}

}  // namespace mxlite
