// Code shared by the kernels on quantized data.
#pragma once
#include <cmath>
#include <limits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/kernel.h"
#include "cpp/ops/quantization/quantization.h"

namespace mxlite::quantization {

// Returns the nearest number of type T, ties to even; NaN gives 0.
template <class T>
T saturate(float v) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
  const float r = std::nearbyint(v);
  if (!(r > kLow)) return std::isnan(r) ? T(0) : std::numeric_limits<T>::min();
  return r < kHigh ? static_cast<T>(r) : std::numeric_limits<T>::max();
}

inline float number(const TensorRef& t) { return *t.as<float>(); }
// Returns the magnitude of a range given by its ends.
inline float magnitude(const TensorRef& low, const TensorRef& high) {
  return largest_magnitude(number(low), number(high));
}
inline void set_range(Outputs out, float low, float high) {
  *out[1].as<float>() = low;
  *out[2].as<float>() = high;
}
// Returns the factor from floats to quantized numbers, or 0 for an empty range.
inline float scale_to(float top, float magnitude) { return magnitude > 0 ? top / magnitude : 0; }

// Calls fn(T{}) with int8_t or uint8_t.
decltype(auto) dispatch_quantized(DType dtype, auto&& fn) {
  if (dtype == DType::kUInt8) return fn(uint8_t{});
  return fn(int8_t{});
}

// Reads int8 or uint8 as float.
class Reader {
 public:
  explicit Reader(const TensorRef& t)
      : data_(t.as<uint8_t>()), is_unsigned_(t.dtype == DType::kUInt8) {}
  float operator[](int64_t i) const {
    return is_unsigned_ ? static_cast<float>(data_[i])
                        : static_cast<float>(static_cast<int8_t>(data_[i]));
  }

 private:
  const uint8_t* data_;
  bool is_unsigned_;
};

// Sets out[i] = saturate(fn(i)).
template <class T, class F>
void fill(const TensorRef& out, F&& fn) {
  T* to = out.as<T>();
  cpu::parallel_ranges(out.size(), 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) to[i] = saturate<T>(fn(i));
  });
}

}  // namespace mxlite::quantization
