#include "cpp/ops/nn/register.h"

namespace mxlite {

void register_nn_cpu(OpRegistry& ops) {
  register_activation_cpu(ops);
  register_attention_cpu(ops);
  register_batch_norm_cpu(ops);
  register_convolution_cpu(ops);
  register_ctc_loss_cpu(ops);
  register_dropout_cpu(ops);
  register_embedding_cpu(ops);
  register_fully_connected_cpu(ops);
  register_im2col_cpu(ops);
  register_image_resize_cpu(ops);
  register_kl_sparse_reg_cpu(ops);
  register_l2_normalization_cpu(ops);
  register_layer_norm_cpu(ops);
  register_leaky_relu_cpu(ops);
  register_lrn_cpu(ops);
  register_output_loss_cpu(ops);
  register_pooling_cpu(ops);
  register_rnn_cpu(ops);
  register_softmax_cpu(ops);
  register_softmax_output_cpu(ops);
  register_upsampling_cpu(ops);
}

}  // namespace mxlite
