// Convolutions of quantized data as plain loops: exact and slow. Sums wrap around.
#pragma once
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::cuda {

// If last_channels is above 0, data, weight and sums are stored channels-last; data and weight
// then have last_channels channels, of which only the first are used. A null bias adds
// nothing.
void convolve_in_loops(KernelContext& ctx, const ConvolutionParams& p, const TensorSpec& data_spec,
                       const Shape& output, int64_t last_channels, const void* data,
                       const int8_t* weight, const int8_t* bias, int32_t* sums);

}  // namespace mxlite::cuda
