// Softmax for use inside other operators.
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/channel_blocks.h"

namespace mxlite::cuda {

// Computes out[0] = softmax of in[0] along the channels of `b`.
void softmax_forward(KernelContext& ctx, const ChannelBlocks& b, Inputs in, Outputs out);

}  // namespace mxlite::cuda
