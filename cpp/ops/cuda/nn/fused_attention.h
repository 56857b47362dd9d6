// Dot-product attention with cuDNN, which does not store the scores.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite::cuda {

// Run _contrib_dot_product_attention, whose random state has been written, and its backward. Return
// false without running anything if cuDNN does not support the call; MXLITE_VERBOSE=dispatch prints
// the reason. With dropout, either both forward and backward run here, or neither does.
bool fused_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);
bool fused_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);

// Returns whether a training call of forward with these inputs uses cuDNN.
bool has_fused_attention(KernelContext& ctx, const AttentionParams& p, const TensorRef& query,
                         const TensorRef& key, const TensorRef& value, const TensorRef* mask);

}  // namespace mxlite::cuda
