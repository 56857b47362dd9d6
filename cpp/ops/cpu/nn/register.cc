#include "cpp/ops/nn/register.h"

namespace mxlite {

void register_nn_cpu(OpRegistry& ops) {
  register_activation_cpu(ops);
  register_batch_norm_cpu(ops);
  register_convolution_cpu(ops);
  register_fully_connected_cpu(ops);
  register_lrn_cpu(ops);
  register_pooling_cpu(ops);
  register_softmax_cpu(ops);
}

}  // namespace mxlite
