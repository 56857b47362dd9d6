#include "cpp/ops/numpy/promotion.h"

#include "cpp/ops/numpy_traits.h"
#include "cpp/ops/pointwise/params.h"

namespace mxlite {
namespace {

DType wider_float(DType a, DType b) {
  const size_t size_a = dtype_size(a), size_b = dtype_size(b);
  if (size_a == size_b) return DType::kFloat32;  // float16 and bfloat16
  return size_a > size_b ? a : b;
}

DType wider_integer(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return dtype_size(a) > dtype_size(b) ? a : b;
  const DType without_sign = is_unsigned(a) ? a : b, with_sign = is_unsigned(a) ? b : a;
  if (dtype_size(with_sign) > dtype_size(without_sign)) return with_sign;
  switch (dtype_size(without_sign)) {
    case 1:
      return DType::kInt16;
    case 2:
      return DType::kInt32;
    case 4:
      return DType::kInt64;
    default:
      return DType::kFloat64;
  }
}

int kind(DType d) { return d == DType::kBool ? 0 : is_unsigned(d) ? 1 : is_floating(d) ? 3 : 2; }

}  // namespace

bool is_unsigned(DType d) {
  return d == DType::kUInt8 || d == DType::kUInt16 || d == DType::kUInt32 || d == DType::kUInt64;
}

DType promoted(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  return is_floating(a) ? wider_float(a, b) : wider_integer(a, b);
}

DType promoted(DType array, NumberKind scalar) {
  if (is_floating(array)) return array;
  if (scalar == NumberKind::kReal) return DType::kFloat32;
  return array == DType::kBool ? DType::kInt64 : array;
}

namespace {

// `dtype_of(i)` is the dtype of input i.
std::optional<DType> input_dtype(const OpSchema& op, const void* params, size_t count,
                                 auto dtype_of) {
  const NumpyTraits& traits = *op.numpy;
  if (traits.promotion == Promotion::kNone || count == 0) return std::nullopt;
  DType dtype = dtype_of(0);
  for (size_t i = 1; i < count; ++i) dtype = promoted(dtype, dtype_of(i));
  if (traits.scalar) {
    const auto& p = *static_cast<const ScalarParams*>(params);
    const bool is_integer = p.is_int && p.scalar.is_integer();
    dtype = promoted(dtype, is_integer ? NumberKind::kInteger : NumberKind::kReal);
  }
  if (traits.promotion == Promotion::kFloat && !is_floating(dtype)) return DType::kFloat32;
  MX_CHECK_DTYPE(traits.promotion != Promotion::kNumber || dtype != DType::kBool, op.name,
                 ": operands must be numbers, got bool arrays; to subtract, use ^ or logical_xor");
  return dtype;
}

}  // namespace

std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const NDArrayRef> inputs) {
  return input_dtype(op, params, inputs.size(), [&](size_t i) { return inputs[i]->dtype(); });
}

std::optional<DType> numpy_input_dtype(const OpSchema& op, const void* params,
                                       std::span<const TensorSpec> inputs) {
  return input_dtype(op, params, inputs.size(), [&](size_t i) { return inputs[i].dtype; });
}

bool is_same_kind(DType from, DType to) { return kind(from) <= kind(to); }

}  // namespace mxlite
