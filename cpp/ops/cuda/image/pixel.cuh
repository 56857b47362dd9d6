// Pixels are computed in float. When stored as uint8, they are rounded and clipped to 0..255.
#pragma once
#include <cmath>

#include "cpp/ops/cuda/element.cuh"

namespace mxlite::cuda {

__device__ __forceinline__ float load_pixel(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kUInt8) return static_cast<const uint8_t*>(data)[i];
  return load_any<float>(data, dtype, i);
}
__device__ __forceinline__ void store_pixel(void* data, DType dtype, int64_t i, float value) {
  if (dtype == DType::kUInt8)
    static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(fminf(fmaxf(rintf(value), 0.0f), 255.0f));
  else
    store_any(data, dtype, i, value);
}

}  // namespace mxlite::cuda
