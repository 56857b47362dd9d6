// Kernels of dot-product attention. Arrays, including results, may have any strides.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite::cpu {

// Inputs and outputs are those of the operators in dot_product_attention.h. The hidden outputs, and
// arrays without elements, must be contiguous.
void run_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);
void run_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);

}  // namespace mxlite::cpu
