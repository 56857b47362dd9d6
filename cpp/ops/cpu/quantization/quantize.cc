#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {
namespace {

struct Range {
  float low = 0, high = 0;
  float magnitude() const { return largest_magnitude(low, high); }
};

template <class T>
Range range_of(const TensorRef& t) {
  if (t.size() == 0) return {};
  const auto [low, high] = std::minmax_element(t.as<T>(), t.as<T>() + t.size());
  return {static_cast<float>(*low), static_cast<float>(*high)};
}

// Stores floats as integers. The end of the range is stored as `top`.
void store(const TensorRef& data, const Range& range, float top, Outputs out) {
  const float* from = data.as<float>();
  const float scale = scale_to(top, range.magnitude());
  dispatch_quantized(out[0].dtype, [&]<class T>(T) {
    fill<T>(out[0], [&](int64_t i) { return from[i] * scale; });
  });
  if (out[0].dtype == DType::kUInt8)
    set_range(out, range.low, range.high);
  else
    set_range(out, -range.magnitude(), range.magnitude());
}

void quantize(KernelContext&, const QuantizeParams&, Inputs in, Outputs out) {
  store(in[0], {number(in[1]), number(in[2])}, largest(out[0].dtype), out);
}

void quantize_v2(KernelContext&, const CalibratedParams& p, Inputs in, Outputs out) {
  if (in[0].dtype != DType::kFloat32) {  // the data is already quantized
    std::copy_n(in[0].as<std::byte>(), in[0].bytes(), out[0].as<std::byte>());
    set_range(out, *p.min_calib_range, *p.max_calib_range);
    return;
  }
  const Range range =
      p.min_calib_range ? Range{*p.min_calib_range, *p.max_calib_range} : range_of<float>(in[0]);
  store(in[0], range, full_scale(out[0].dtype), out);
}

void dequantize(KernelContext&, const DequantizeParams&, Inputs in, Outputs out) {
  const float level = Range{number(in[1]), number(in[2])}.magnitude() / full_scale(in[0].dtype);
  float* to = out[0].as<float>();
  dispatch_quantized(in[0].dtype, [&]<class T>(T) {
    const T* from = in[0].as<T>();
    cpu::parallel_ranges(in[0].size(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * level;
    });
  });
}

void requantize(KernelContext&, const CalibratedParams& p, Inputs in, Outputs out) {
  const double level =
      double{Range{number(in[1]), number(in[2])}.magnitude()} / (double{kInt32Range} - 1);
  const int32_t* from = in[0].as<int32_t>();
  Range range{p.min_calib_range.value_or(0), p.max_calib_range.value_or(0)};
  if (!p.min_calib_range) {
    range = range_of<int32_t>(in[0]);
    range = {static_cast<float>(range.low * level), static_cast<float>(range.high * level)};
  }
  const float magnitude = range.magnitude();
  const auto scale = static_cast<float>(level * scale_to(largest(out[0].dtype), magnitude));
  dispatch_quantized(out[0].dtype, [&]<class T>(T) {
    fill<T>(out[0], [&](int64_t i) { return static_cast<float>(from[i]) * scale; });
  });
  set_range(out, out[0].dtype == DType::kUInt8 ? 0.0f : -magnitude, magnitude);
}

void quantize_asymmetric(KernelContext&, const RangeParams& p, Inputs in, Outputs out) {
  const Range range =
      p.min_calib_range ? Range{*p.min_calib_range, *p.max_calib_range} : range_of<float>(in[0]);
  const float* from = in[0].as<float>();
  const float scale = scale_to(255.0f, range.high - range.low);
  const float shift = 255.0f - range.high * scale;
  uint8_t* to = out[0].as<uint8_t>();
  cpu::parallel_ranges(in[0].size(), 2, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      to[i] = saturate<uint8_t>(std::floor(from[i] * scale + shift + 0.5f));
  });
  set_range(out, scale, shift);
}

}  // namespace
}  // namespace quantization

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  ops.cpu_kernel<&quantize>("_contrib_quantize");
  ops.cpu_kernel<&quantize_v2>("_contrib_quantize_v2");
  ops.cpu_kernel<&quantize_asymmetric>("_contrib_quantize_asym");
  ops.cpu_kernel<&dequantize>("_contrib_dequantize");
  ops.cpu_kernel<&requantize>("_contrib_requantize");
});

}  // namespace mxlite
