// Kernels of dot-product attention, which take arrays of any strides, results included.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/dot_product_attention.h"

namespace mxlite::cpu {

// Inputs and outputs are those of the operators of dot_product_attention.h; the hidden outputs are
// contiguous. Arrays without elements have to be contiguous, too.
void run_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);
void run_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out);

}  // namespace mxlite::cpu
