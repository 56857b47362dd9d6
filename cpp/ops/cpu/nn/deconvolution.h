// Deconvolution for use inside other operators.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite {

struct DeconvolutionParams;

namespace cpu {

void deconvolution(KernelContext& ctx, const DeconvolutionParams& p, Inputs in, Outputs out);

}  // namespace cpu
}  // namespace mxlite
