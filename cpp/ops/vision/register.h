// Registration of the operators on image regions, one function per file.
#pragma once

namespace mxlite {

class OpRegistry;

void register_vision(OpRegistry& ops);      // schemas of this folder
void register_vision_cpu(OpRegistry& ops);  // native kernels, cpp/ops/cpu/vision

void register_bipartite_matching(OpRegistry& ops);
void register_box(OpRegistry& ops);
void register_box_nms(OpRegistry& ops);
void register_correlation(OpRegistry& ops);
void register_crop(OpRegistry& ops);
void register_deformable_convolution(OpRegistry& ops);
void register_multibox(OpRegistry& ops);
void register_proposal(OpRegistry& ops);
void register_ps_roi_pooling(OpRegistry& ops);
void register_roi_align(OpRegistry& ops);
void register_roi_pooling(OpRegistry& ops);
void register_sampling_grid(OpRegistry& ops);

void register_bipartite_matching_cpu(OpRegistry& ops);
void register_box_cpu(OpRegistry& ops);
void register_box_nms_cpu(OpRegistry& ops);
void register_correlation_cpu(OpRegistry& ops);
void register_crop_cpu(OpRegistry& ops);
void register_deformable_convolution_cpu(OpRegistry& ops);
void register_deformable_ps_roi_pooling_cpu(OpRegistry& ops);
void register_multibox_detection_cpu(OpRegistry& ops);
void register_multibox_prior_cpu(OpRegistry& ops);
void register_multibox_target_cpu(OpRegistry& ops);
void register_proposal_cpu(OpRegistry& ops);
void register_ps_roi_pooling_cpu(OpRegistry& ops);
void register_roi_align_cpu(OpRegistry& ops);
void register_roi_pooling_cpu(OpRegistry& ops);
void register_rotated_roi_align_cpu(OpRegistry& ops);
void register_sampling_grid_cpu(OpRegistry& ops);

}  // namespace mxlite
