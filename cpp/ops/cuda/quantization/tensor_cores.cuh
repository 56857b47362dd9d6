// Quantized convolutions and fully connected layers on tensor cores, with the same results as the
// loops of layers.cu. The functions return false, without writing anything except scratch memory,
// if the loops must run; plan_int8_gemm and plan_int8_convolution, or the library, give the reason
// (MXLITE_VERBOSE=dispatch).
#pragma once
#include "cpp/ops/cuda/quantization/convert.cuh"
#include "cpp/ops/quantization/int8_product.h"

namespace mxlite::cuda {

// Number of units of the int32 sums in one unit of an int8 bias. As in 1.x on the CPU, a
// convolution adds its bias to the sums without scaling, regardless of its range.
struct BiasUnits {
  const int8_t* bias = nullptr;  // null without a bias
  bool scaled = false;
  Range data, weight, own;
  float data_top = 1, int8_top = 1;

  __device__ float get() const {
    if (!scaled) return 1;
    const float scale = scale_to(int8_top, own.magnitude());
    return scale > 0 ? scale_to(data_top, data.magnitude()) *
                           scale_to(int8_top, weight.magnitude()) / scale
                     : 0;
  }
  __device__ int32_t at(int64_t i, float units) const {
    return saturate<int32_t>(truncf(static_cast<float>(bias[i]) * units));
  }
};

bool multiply_on_tensor_cores(KernelContext& ctx, const FullyConnectedParams& p,
                              const BiasUnits& bias, Inputs in, Outputs out);

// Inputs and outputs are in plain memory.
bool convolve_on_tensor_cores(KernelContext& ctx, const ConvolutionParams& p, const BiasUnits& bias,
                              Inputs in, Outputs out);

// Like the function above for channels-last data and weights with as many channels as the plan's
// problem, and channels-last sums. The number of filters must be a multiple of
// Int8Convolution::kFilters.
bool convolve_last_on_tensor_cores(KernelContext& ctx, const quantization::Int8Convolution& c,
                                   const BiasUnits& bias, const void* data, const int8_t* weight,
                                   int32_t* sums);

}  // namespace mxlite::cuda
