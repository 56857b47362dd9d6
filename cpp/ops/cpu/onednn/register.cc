#include "cpp/ops/cpu/onednn/register.h"

#include "cpp/ops/cpu/onednn/eager.h"
#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/cpu/onednn/plans.h"

namespace mxlite {

void register_onednn_cpu(OpRegistry& ops) {
  onednn::register_convolution_onednn(ops);
  onednn::register_fully_connected_onednn(ops);
  onednn::register_pooling_onednn(ops);
  onednn::register_softmax_onednn(ops);
  onednn::register_lrn_onednn(ops);
}

void register_onednn_plans() {
  set_layout_backend(DeviceType::kCPU, {onednn::same_format, onednn::plan_format_reorder});
  onednn::plan_batch_norm();
  onednn::plan_concat();
  onednn::plan_convolution();
  onednn::plan_fully_connected();
  onednn::plan_norm();
  onednn::plan_pointwise();
  onednn::plan_pooling();
}

}  // namespace mxlite
