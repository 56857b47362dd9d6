#include "cpp/ops/vision/register.h"

namespace mxlite {

void register_vision(OpRegistry& ops) {
  register_bipartite_matching(ops);
  register_box(ops);
  register_box_nms(ops);
  register_correlation(ops);
  register_crop(ops);
  register_deformable_convolution(ops);
  register_multibox(ops);
  register_proposal(ops);
  register_ps_roi_pooling(ops);
  register_roi_align(ops);
  register_roi_pooling(ops);
  register_sampling_grid(ops);
}

}  // namespace mxlite
