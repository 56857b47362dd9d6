// Batch normalization on device memory, for the operators and for planned kernels.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/batch_norm.h"

namespace mxlite::cuda {

struct BatchNormCall {
  ChannelBlocks blocks;
  DType dtype = DType::kFloat32, stats_dtype = DType::kFloat32;
  double eps = 0, momentum = 0;
  bool fix_gamma = false, batch_stats = false, relu = false;
  const void *data = nullptr, *gamma = nullptr, *beta = nullptr;
  const void* addend = nullptr;  // added to the result, before relu
  void *running_mean = nullptr, *running_var = nullptr;
  void *output = nullptr, *mean = nullptr, *inv_std = nullptr;
  uint8_t* relu_bits = nullptr;  // optional: one bit per element, set if relu passed the value
  void* var = nullptr;           // needed by SyncBatchNorm
  // Statistics from an earlier call instead of running statistics; then only the output is written.
  const void *known_mean = nullptr, *known_inv_std = nullptr;
  // (2, channels): sums of the data's channels and of their squares, for batch_stats. If null, the
  // sums are computed after subtracting one of the elements.
  const float* known_sums = nullptr;
};
size_t batch_norm_scratch_bytes(const ChannelBlocks& blocks);
void batch_norm_forward(KernelContext& ctx, const BatchNormCall& call, void* scratch);

struct BatchNormGradCall {
  ChannelBlocks blocks;
  DType dtype = DType::kFloat32, stats_dtype = DType::kFloat32;
  bool fix_gamma = false, batch_stats = false;
  const void *output_grad = nullptr, *data = nullptr, *gamma = nullptr, *mean = nullptr,
             *inv_std = nullptr;
  void *data_grad = nullptr, *gamma_grad = nullptr, *beta_grad = nullptr;
  // With a following relu, the output's gradient passes where relu passed values: where relu_output
  // is positive, relu_bits is set, or relu's input, recomputed with relu_beta, is positive.
  const void *relu_output = nullptr, *relu_beta = nullptr;
  const uint8_t* relu_bits = nullptr;
  const void* other_grad = nullptr;  // optional: added to output_grad
  // The gradient of the array added before relu. Required with other_grad.
  void* added_grad = nullptr;
};
void batch_norm_backward(KernelContext& ctx, const BatchNormGradCall& call, void* scratch);

}  // namespace mxlite::cuda
