#include "cpp/ops/cuda/register_ops_cuda.h"

#include "cpp/ops/cuda/channels_last.h"

namespace mxlite {

// One line per file or family, in alphabetical order of folder and file.
void register_count_sketch_cuda(OpRegistry&);              // contrib/
void register_estimators_cuda(OpRegistry&);                // contrib/
void register_hawkes_cuda(OpRegistry&);                    // contrib/
void register_image_color_cuda(OpRegistry&);               // image/
void register_image_geometry_cuda(OpRegistry&);            // image/
void register_dot_cuda(OpRegistry&);                       // matrix/
void register_khatri_rao_cuda(OpRegistry&);                // matrix/
void register_linalg_cuda(OpRegistry&);                    // matrix/
void register_linalg_factor_cuda(OpRegistry&);             // matrix/
void register_activation_cuda(OpRegistry&);                // nn/
void register_attention_cuda(OpRegistry&);                 // nn/
void register_batch_norm_cuda(OpRegistry&);                // nn/
void register_channel_norms_cuda(OpRegistry&);             // nn/
void register_convolution_cuda(OpRegistry&);               // nn/
void register_ctc_loss_cuda(OpRegistry&);                  // nn/
void register_dropout_cuda(OpRegistry&);                   // nn/
void register_embedding_cuda(OpRegistry&);                 // nn/
void register_fully_connected_cuda(OpRegistry&);           // nn/
void register_im2col_cuda(OpRegistry&);                    // nn/
void register_image_resize_cuda(OpRegistry&);              // nn/
void register_kl_sparse_reg_cuda(OpRegistry&);             // nn/
void register_layer_norm_cuda(OpRegistry&);                // nn/
void register_leaky_relu_cuda(OpRegistry&);                // nn/
void register_output_loss_cuda(OpRegistry&);               // nn/
void register_pooling_cuda(OpRegistry&);                   // nn/
void register_rnn_cuda(OpRegistry&);                       // nn/
void register_softmax_cuda(OpRegistry&);                   // nn/
void register_softmax_output_cuda(OpRegistry&);            // nn/
void register_upsampling_cuda(OpRegistry&);                // nn/
void register_multi_updates_cuda(OpRegistry&);             // optimizer/
void register_updates_cuda(OpRegistry&);                   // optimizer/
void register_add_n_cuda(OpRegistry&);                     // pointwise/
void register_binary_cuda(OpRegistry&);                    // pointwise/
void register_logic_cuda(OpRegistry&);                     // pointwise/
void register_unary_arithmetic_cuda(OpRegistry&);          // pointwise/
void register_unary_math1_cuda(OpRegistry&);               // pointwise/
void register_unary_math2_cuda(OpRegistry&);               // pointwise/
void register_quantized_elementwise_cuda(OpRegistry&);     // quantization/
void register_quantized_layers_cuda(OpRegistry&);          // quantization/
void register_quantize_cuda(OpRegistry&);                  // quantization/
void register_random_cuda(OpRegistry&);                    // random/
void register_arg_cuda(OpRegistry&);                       // reduce/
void register_cumsum_cuda(OpRegistry&);                    // reduce/
void register_products_cuda(OpRegistry&);                  // reduce/
void register_sums_cuda(OpRegistry&);                      // reduce/
void register_sequence_ops_cuda(OpRegistry&);              // sequence/
void register_sparse_csr_cuda(OpRegistry&);                // sparse/
void register_sparse_rows_cuda(OpRegistry&);               // sparse/
void register_sparse_updates_cuda(OpRegistry&);            // sparse/
void register_concat_cuda(OpRegistry&);                    // tensor/
void register_copy_cuda(OpRegistry&);                      // tensor/
void register_creation_cuda(OpRegistry&);                  // tensor/
void register_diag_cuda(OpRegistry&);                      // tensor/
void register_gather_nd_cuda(OpRegistry&);                 // tensor/
void register_ranges_cuda(OpRegistry&);                    // tensor/
void register_repeat_cuda(OpRegistry&);                    // tensor/
void register_select_cuda(OpRegistry&);                    // tensor/
void register_slice_cuda(OpRegistry&);                     // tensor/
void register_sort_cuda(OpRegistry&);                      // tensor/
void register_take_cuda(OpRegistry&);                      // tensor/
void register_transpose_cuda(OpRegistry&);                 // tensor/
void register_box_cuda(OpRegistry&);                       // vision/
void register_box_nms_cuda(OpRegistry&);                   // vision/
void register_correlation_cuda(OpRegistry&);               // vision/
void register_deformable_convolution_cuda(OpRegistry&);    // vision/
void register_deformable_psroi_pooling_cuda(OpRegistry&);  // vision/
void register_multibox_cuda(OpRegistry&);                  // vision/
void register_multibox_target_cuda(OpRegistry&);           // vision/
void register_proposal_cuda(OpRegistry&);                  // vision/
void register_roi_cuda(OpRegistry&);                       // vision/
void register_rotated_roi_align_cuda(OpRegistry&);         // vision/
void register_sampling_grid_cuda(OpRegistry&);             // vision/

void register_all_ops_cuda(OpRegistry& ops) {
  register_count_sketch_cuda(ops);
  register_estimators_cuda(ops);
  register_hawkes_cuda(ops);
  register_image_color_cuda(ops);
  register_image_geometry_cuda(ops);
  register_dot_cuda(ops);
  register_khatri_rao_cuda(ops);
  register_linalg_cuda(ops);
  register_linalg_factor_cuda(ops);
  register_activation_cuda(ops);
  register_attention_cuda(ops);
  register_batch_norm_cuda(ops);
  register_channel_norms_cuda(ops);
  register_convolution_cuda(ops);
  register_ctc_loss_cuda(ops);
  register_dropout_cuda(ops);
  register_embedding_cuda(ops);
  register_fully_connected_cuda(ops);
  register_im2col_cuda(ops);
  register_image_resize_cuda(ops);
  register_kl_sparse_reg_cuda(ops);
  register_layer_norm_cuda(ops);
  register_leaky_relu_cuda(ops);
  register_output_loss_cuda(ops);
  register_pooling_cuda(ops);
  register_rnn_cuda(ops);
  register_softmax_cuda(ops);
  register_softmax_output_cuda(ops);
  register_upsampling_cuda(ops);
  register_multi_updates_cuda(ops);
  register_updates_cuda(ops);
  register_add_n_cuda(ops);
  register_binary_cuda(ops);
  register_logic_cuda(ops);
  register_unary_arithmetic_cuda(ops);
  register_unary_math1_cuda(ops);
  register_unary_math2_cuda(ops);
  register_quantized_elementwise_cuda(ops);
  register_quantized_layers_cuda(ops);
  register_quantize_cuda(ops);
  register_random_cuda(ops);
  register_arg_cuda(ops);
  register_cumsum_cuda(ops);
  register_products_cuda(ops);
  register_sums_cuda(ops);
  register_sequence_ops_cuda(ops);
  register_sparse_csr_cuda(ops);
  register_sparse_rows_cuda(ops);
  register_sparse_updates_cuda(ops);
  register_concat_cuda(ops);
  register_copy_cuda(ops);
  register_creation_cuda(ops);
  register_diag_cuda(ops);
  register_gather_nd_cuda(ops);
  register_ranges_cuda(ops);
  register_repeat_cuda(ops);
  register_select_cuda(ops);
  register_slice_cuda(ops);
  register_sort_cuda(ops);
  register_take_cuda(ops);
  register_transpose_cuda(ops);
  register_box_cuda(ops);
  register_box_nms_cuda(ops);
  register_correlation_cuda(ops);
  register_deformable_convolution_cuda(ops);
  register_deformable_psroi_pooling_cuda(ops);
  register_multibox_cuda(ops);
  register_multibox_target_cuda(ops);
  register_proposal_cuda(ops);
  register_roi_cuda(ops);
  register_rotated_roi_align_cuda(ops);
  register_sampling_grid_cuda(ops);

  cuda::register_cuda_plans();
}

}  // namespace mxlite
