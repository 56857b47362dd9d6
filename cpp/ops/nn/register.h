// Registration of the layer operators, one function per file.
#pragma once

namespace mxlite {

class OpRegistry;

void register_nn(OpRegistry& ops);      // schemas of this folder
void register_nn_cpu(OpRegistry& ops);  // native kernels, cpp/ops/cpu/nn

void register_activation(OpRegistry& ops);
void register_attention(OpRegistry& ops);
void register_batch_norm(OpRegistry& ops);
void register_convolution(OpRegistry& ops);
void register_ctc_loss(OpRegistry& ops);
void register_deconvolution(OpRegistry& ops);
void register_dropout(OpRegistry& ops);
void register_embedding(OpRegistry& ops);
void register_fully_connected(OpRegistry& ops);
void register_im2col(OpRegistry& ops);
void register_image_resize(OpRegistry& ops);
void register_kl_sparse_reg(OpRegistry& ops);
void register_l2_normalization(OpRegistry& ops);
void register_layer_norm(OpRegistry& ops);
void register_leaky_relu(OpRegistry& ops);
void register_lrn(OpRegistry& ops);
void register_output_loss(OpRegistry& ops);
void register_pooling(OpRegistry& ops);
void register_rnn(OpRegistry& ops);
void register_softmax(OpRegistry& ops);
void register_softmax_output(OpRegistry& ops);
void register_upsampling(OpRegistry& ops);

void register_activation_cpu(OpRegistry& ops);
void register_attention_cpu(OpRegistry& ops);
void register_batch_norm_cpu(OpRegistry& ops);
void register_convolution_cpu(OpRegistry& ops);
void register_ctc_loss_cpu(OpRegistry& ops);
void register_dropout_cpu(OpRegistry& ops);
void register_embedding_cpu(OpRegistry& ops);
void register_fully_connected_cpu(OpRegistry& ops);
void register_im2col_cpu(OpRegistry& ops);
void register_image_resize_cpu(OpRegistry& ops);
void register_kl_sparse_reg_cpu(OpRegistry& ops);
void register_l2_normalization_cpu(OpRegistry& ops);
void register_layer_norm_cpu(OpRegistry& ops);
void register_leaky_relu_cpu(OpRegistry& ops);
void register_lrn_cpu(OpRegistry& ops);
void register_output_loss_cpu(OpRegistry& ops);
void register_pooling_cpu(OpRegistry& ops);
void register_rnn_cpu(OpRegistry& ops);
void register_softmax_cpu(OpRegistry& ops);
void register_softmax_output_cpu(OpRegistry& ops);
void register_upsampling_cpu(OpRegistry& ops);

}  // namespace mxlite
