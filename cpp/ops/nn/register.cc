#include "cpp/ops/nn/register.h"

namespace mxlite {

void register_nn(OpRegistry& ops) {
  register_activation(ops);
  register_attention(ops);
  register_batch_norm(ops);
  register_convolution(ops);
  register_ctc_loss(ops);
  register_deconvolution(ops);
  register_dropout(ops);
  register_embedding(ops);
  register_fully_connected(ops);
  register_im2col(ops);
  register_image_resize(ops);
  register_kl_sparse_reg(ops);
  register_l2_normalization(ops);
  register_layer_norm(ops);
  register_leaky_relu(ops);
  register_lrn(ops);
  register_output_loss(ops);
  register_pooling(ops);
  register_rnn(ops);
  register_softmax(ops);
  register_softmax_output(ops);
  register_upsampling(ops);
}

}  // namespace mxlite
