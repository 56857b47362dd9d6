// Element types. The codes are those of .params files, which reserve 8 to 11.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <type_traits>

#include "cpp/base/error.h"
#include "cpp/core/half.h"

namespace mxlite {

enum class DType : uint8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kUInt8 = 3,
  kInt32 = 4,
  kInt8 = 5,
  kInt64 = 6,
  kBool = 7,
  kInt16 = 8,
  kUInt16 = 9,
  kUInt32 = 10,
  kUInt64 = 11,
  kBFloat16 = 12,
};

size_t dtype_size(DType dtype);
const char* dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
inline bool is_half(DType d) { return d == DType::kFloat16 || d == DType::kBFloat16; }
inline bool is_floating(DType d) {
  return d == DType::kFloat32 || d == DType::kFloat64 || is_half(d);
}
inline std::ostream& operator<<(std::ostream& out, DType d) { return out << dtype_name(d); }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kFloat32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kFloat64> {};
template <>
struct DTypeOf<float16> : std::integral_constant<DType, DType::kFloat16> {};
template <>
struct DTypeOf<bfloat16> : std::integral_constant<DType, DType::kBFloat16> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::kBool> {};
template <>
struct DTypeOf<int8_t> : std::integral_constant<DType, DType::kInt8> {};
template <>
struct DTypeOf<int16_t> : std::integral_constant<DType, DType::kInt16> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kUInt8> {};
template <>
struct DTypeOf<uint16_t> : std::integral_constant<DType, DType::kUInt16> {};
template <>
struct DTypeOf<uint32_t> : std::integral_constant<DType, DType::kUInt32> {};
template <>
struct DTypeOf<uint64_t> : std::integral_constant<DType, DType::kUInt64> {};

// Type of sums and computations on values of T: float for 16-bit floats and T for all other types.
template <class T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

// Calls fn(T{}) with the C++ type of dtype. Use once, at the beginning of a kernel.
decltype(auto) dispatch_dtype(DType dtype, auto&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kFloat16:
      return fn(float16{});
    case DType::kBFloat16:
      return fn(bfloat16{});
    case DType::kBool:
      return fn(bool{});
    case DType::kInt8:
      return fn(int8_t{});
    case DType::kInt16:
      return fn(int16_t{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    case DType::kUInt8:
      return fn(uint8_t{});
    case DType::kUInt16:
      return fn(uint16_t{});
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kUInt64:
      return fn(uint64_t{});
  }
  fail(ErrorKind::kDType, "dtype code must be known, got ", static_cast<int>(dtype));
}

// Like dispatch_dtype for kernels that accept only floating types. `op` names the operator in the
// error.
decltype(auto) dispatch_floating(const char* op, DType dtype, auto&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn(float{});
    case DType::kFloat64:
      return fn(double{});
    case DType::kFloat16:
      return fn(float16{});
    case DType::kBFloat16:
      return fn(bfloat16{});
    default:
      fail(ErrorKind::kDType, op, ": dtype must be float16, bfloat16, float32 or float64, got ",
           dtype_name(dtype));
  }
}

}  // namespace mxlite
