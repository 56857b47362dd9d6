// int8 and uint8 numbers that represent floats. A quantized array comes with two arrays of one
// float32, the ends of its range. Only the larger absolute value of the two ends is used. Constants
// and rounding are those of 1.x on the CPU.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>

#include "cpp/ops/op_schema.h"

namespace mxlite::quantization {

enum class Target : uint8_t { kAuto, kInt8, kUInt8 };
enum class Fixed : uint8_t { kInt8, kUInt8 };
enum class Float : uint8_t { kFloat32 };

// Returns whether a call returns int8 or uint8. `auto` means uint8 for a range without negative
// numbers.
inline DType target_dtype(Target t, const std::optional<float>& min_calib_range) {
  if (t == Target::kAuto)
    return min_calib_range && *min_calib_range >= 0 ? DType::kUInt8 : DType::kInt8;
  return t == Target::kUInt8 ? DType::kUInt8 : DType::kInt8;
}

// Returns the number that represents the end of the range in conversions of activations.
inline float full_scale(DType dtype) { return dtype == DType::kUInt8 ? 255.5f : 127.5f; }
// Returns the number that represents the end of the range where ranges of products are computed.
inline float largest(DType dtype) { return dtype == DType::kUInt8 ? 255.0f : 127.0f; }
inline float largest_magnitude(float low, float high) {
  return std::max(std::fabs(low), std::fabs(high));
}
constexpr float kInt32Range = 2147483648.0f;

struct QuantizeParams {
  Fixed out_type = Fixed::kUInt8;
  MX_FIELDS(QuantizeParams, MX_FIELD(out_type, "dtype of the output."))
};

struct DequantizeParams {
  Float out_type = Float::kFloat32;
  MX_FIELDS(DequantizeParams, MX_FIELD(out_type, "dtype of the output."))
};

struct CalibratedParams {
  Target out_type = Target::kInt8;
  std::optional<float> min_calib_range, max_calib_range;
  MX_FIELDS(
      CalibratedParams,
      MX_FIELD(out_type,
               "dtype of the output; auto: uint8 if min_calib_range is given and at least 0, else "
               "int8."),
      MX_FIELD(
          min_calib_range,
          "Low end of the range of floats that the output represents; None: the range of data."),
      MX_FIELD(
          max_calib_range,
          "High end of the range of floats that the output represents; None: the range of data."))
};

struct RangeParams {
  std::optional<float> min_calib_range, max_calib_range;
  MX_FIELDS(
      RangeParams,
      MX_FIELD(
          min_calib_range,
          "Low end of the output's range, as calibration measured it; None: not known in advance."),
      MX_FIELD(max_calib_range,
               "High end of the output's range, as calibration measured it; None: not known in "
               "advance."))
};

struct MultiplyParams : RangeParams {
  bool enable_float_output = false;
  MX_FIELDS(MultiplyParams, RangeParams::fields(),
            MX_FIELD(enable_float_output, "Whether the product is float32, without a range."))
};

struct EntropyParams {
  int64_t num_quantized_bins = 255;
  MX_FIELDS(EntropyParams,
            MX_FIELD(num_quantized_bins, "Number of bins after quantization, such as 255 for int8.")
                .between(1, kMaxSize))
};

// "<op>: <input> must be of dtype int8 or uint8, got ..."
void check_quantized(const char* op, const char* input, const TensorSpec& spec);
// Requires one float32 in each of the inputs first .. first + count.
void check_ranges(const char* op, std::span<const TensorSpec> in, size_t first, size_t count);
// Requires that both ends of a range are given, or neither.
void check_calibration(const char* op, const std::optional<float>& low,
                       const std::optional<float>& high);
inline const TensorSpec kOneFloat{Shape{1}, DType::kFloat32};
inline Specs with_range(const TensorSpec& spec) { return {spec, kOneFloat, kOneFloat}; }

}  // namespace mxlite::quantization

namespace mxlite {

MX_ENUM_NAMES(quantization::Target, {"auto", E::kAuto}, {"int8", E::kInt8}, {"uint8", E::kUInt8})
MX_ENUM_NAMES(quantization::Fixed, {"int8", E::kInt8}, {"uint8", E::kUInt8})
MX_ENUM_NAMES(quantization::Float, {"float32", E::kFloat32})

}  // namespace mxlite
