// Runs Deconvolution inside another operator's kernel (UpSampling).
#pragma once
#include "cpp/ops/kernel.h"
#include "cpp/ops/nn/deconvolution.h"

namespace mxlite::cuda {

void deconvolution(KernelContext& ctx, const DeconvolutionParams& p, Inputs in, Outputs out);

}  // namespace mxlite::cuda
