// Shape and type rules of element-wise operators. Each function returns a rule for an operator
// name.
#pragma once
#include <cmath>
#include <string>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/number.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {

// Returns whether integers can represent the number after truncating its fraction or, as in 1.x,
// wrapping around. Integers cannot represent NaN, infinity and numbers beyond 64 bits.
inline bool integers_hold(Number value) {
  return value.is_integer() || std::abs(static_cast<double>(value)) < 0x1p64;
}

inline void check_same_dtype(const std::string& op, std::span<const TensorSpec> in) {
  for (size_t i = 1; i < in.size(); ++i)
    MX_CHECK_DTYPE(in[i].dtype == in[0].dtype, op, ": operands must have equal dtypes, got ",
                   in[0].dtype, " and ", in[i].dtype, "; convert one with astype");
}

// Rule for one input of any dtype; the output has its shape and dtype.
inline auto like_input() {
  return [](const auto&, std::span<const TensorSpec> in) -> Specs { return {in[0]}; };
}

// Rule for one input of any dtype except bool; the output has its shape and dtype.
inline auto like_number(std::string op) {
  return [op = std::move(op)](const auto&, std::span<const TensorSpec> in) -> Specs {
    MX_CHECK_DTYPE(in[0].dtype != DType::kBool, op,
                   ": data must have a numeric dtype, got bool; convert it with astype('float32')");
    return {in[0]};
  };
}

inline auto same_shapes(std::string op) {
  return [op = std::move(op)](const auto&, std::span<const TensorSpec> in) -> Specs {
    TensorSpec out = in[0];
    for (size_t i = 1; i < in.size(); ++i) {
      if (in[i].shape == out.shape) continue;
      MX_CHECK_SHAPE(may_equal(in[i].shape, out.shape), op,
                     ": operands must have equal shapes, got ", out.shape, " and ", in[i].shape);
      out.shape = merged(out.shape, in[i].shape);
    }
    check_same_dtype(op, in);
    return {out};
  };
}

inline auto broadcast_rule(std::string op) {
  return [op = std::move(op)](const auto&, std::span<const TensorSpec> in) -> Specs {
    check_same_dtype(op, in);
    return {{broadcast_shapes(op.c_str(), in[0].shape, in[1].shape), in[0].dtype}};
  };
}

}  // namespace mxlite
