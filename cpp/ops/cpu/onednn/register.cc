#include "cpp/ops/cpu/onednn/register.h"

#include "cpp/ops/cpu/onednn/eager.h"

namespace mxlite {

void register_onednn_cpu(OpRegistry& ops) {
  onednn::register_convolution_onednn(ops);
  onednn::register_fully_connected_onednn(ops);
  onednn::register_pooling_onednn(ops);
  onednn::register_softmax_onednn(ops);
  onednn::register_lrn_onednn(ops);
}

}  // namespace mxlite
