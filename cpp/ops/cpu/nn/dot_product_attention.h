// Kernels of dot-product attention. Arrays, including results, may have any strides.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite::cpu {

// cpp/ops/nn/dot_product_attention.h describes the inputs and outputs. The hidden outputs, and
// arrays without elements, must be contiguous.
void run_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);
void run_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);

}  // namespace mxlite::cpu
