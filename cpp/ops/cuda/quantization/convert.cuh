// Code shared by the kernels on quantized data. A range consists of two arrays of one float in
// device memory, from which every thread computes the scales.
#pragma once
#include <limits>

#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/quantization/quantization.h"

namespace mxlite::cuda {

// Rounds to the nearest number (halves to even) and clips it to T; NaN becomes 0.
template <class T>
__device__ __forceinline__ T saturate(float v) {
  constexpr T kLeast = std::numeric_limits<T>::min(), kMost = std::numeric_limits<T>::max();
  const float r = rintf(v);
  if (!(r > static_cast<float>(kLeast))) return r != r ? T(0) : kLeast;
  return r < static_cast<float>(kMost) ? static_cast<T>(r) : kMost;
}

// Returns the factor from floats to quantized numbers; 0 for a range without extent.
__device__ __forceinline__ float scale_to(float top, float magnitude) {
  return magnitude > 0 ? top / magnitude : 0;
}

// Ends of a range: addresses in device memory, or values if the addresses are null.
struct Range {
  const float *low_at = nullptr, *high_at = nullptr;
  float low_value = 0, high_value = 0;

  static Range of(const TensorRef& low, const TensorRef& high) {
    return {low.as<float>(), high.as<float>()};
  }
  static Range fixed(float low, float high) { return {nullptr, nullptr, low, high}; }
  __device__ float low() const { return low_at ? *low_at : low_value; }
  __device__ float high() const { return high_at ? *high_at : high_value; }
  __device__ float magnitude() const { return fmaxf(fabsf(low()), fabsf(high())); }
};

// The range that a call writes.
struct RangeOut {
  float *low, *high;
  explicit RangeOut(Outputs out) : low(out[1].as<float>()), high(out[2].as<float>()) {}
  // Only the first thread of the launch writes.
  __device__ void set(float low_value, float high_value) const {
    if (global_index() != 0) return;
    *low = low_value;
    *high = high_value;
  }
};

// Copies a range. The kernel is a template so that each file gets a separate kernel.
template <class = void>
__global__ void copy_range(Range from, RangeOut to) {
  to.set(from.low(), from.high());
}
inline void give_range(KernelContext& ctx, const Range& range, Outputs out) {
  launch(ctx, copy_range<>, 1, 1, range, RangeOut(out));
}

// Writes the range of the int32 sums of products of data up to data_top and int8 weights.
template <class = void>
__global__ void product_range(Range data, float data_top, Range weight, float weight_top,
                              RangeOut out) {
  const float end =
      data.magnitude() / data_top * (weight.magnitude() / weight_top) * quantization::kInt32Range;
  out.set(-end, end);
}
// Both ranges begin at in[first]. Writes the range of the products.
inline void give_product_range(KernelContext& ctx, float data_top, Inputs in, size_t first,
                               Outputs out) {
  launch(ctx, product_range<>, 1, 1, Range::of(in[first], in[first + 1]), data_top,
         Range::of(in[first + 2], in[first + 3]), quantization::largest(DType::kInt8),
         RangeOut(out));
}

// An array of int8 or uint8, or an int32 array to be written.
struct Numbers {
  void* data;
  DType dtype;
  explicit Numbers(const TensorRef& t) : data(t.data), dtype(t.dtype) {}
  __device__ float load(int64_t i) const {
    if (dtype == DType::kUInt8) return static_cast<const uint8_t*>(data)[i];
    return static_cast<const int8_t*>(data)[i];
  }
  __device__ int32_t load_integer(int64_t i) const {
    if (dtype == DType::kUInt8) return static_cast<const uint8_t*>(data)[i];
    return static_cast<const int8_t*>(data)[i];
  }
  __device__ void store(int64_t i, float v) const {
    if (dtype == DType::kUInt8)
      static_cast<uint8_t*>(data)[i] = saturate<uint8_t>(v);
    else if (dtype == DType::kInt8)
      static_cast<int8_t*>(data)[i] = saturate<int8_t>(v);
    else
      static_cast<int32_t*>(data)[i] = saturate<int32_t>(v);
  }
};

// Returns at least 1, because a kernel that only writes a range still needs a thread.
inline int64_t at_least_one(int64_t items) { return std::max<int64_t>(items, 1); }

}  // namespace mxlite::cuda
