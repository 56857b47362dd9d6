// Dot-product attention by cuDNN, which keeps no scores in memory.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite::cuda {

// Run _contrib_dot_product_attention, whose random state has been written, and its backward. They
// return false, and run nothing, if cuDNN does not compute the call; MXLITE_VERBOSE=dispatch prints
// why. With dropout, either both forward and backward run here, or neither does.
bool fused_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);
bool fused_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);

// Returns whether a training call of the forward with these inputs runs here.
bool has_fused_attention(KernelContext& ctx, const AttentionParams& p, const TensorRef& query,
                         const TensorRef& key, const TensorRef& value, const TensorRef* mask);

}  // namespace mxlite::cuda
