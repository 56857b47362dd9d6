// Element-wise functions of two values. Comparisons give 0 or 1 in the operands' type, as 1.x does.
#pragma once
#include "cpp/ops/pointwise/unary_functors.h"

namespace mxlite::pointwise {

#define MX_BINARY(Type, op, expression)     \
  struct Type {                             \
    static constexpr const char* name = op; \
    template <class T>                      \
    static MX_HD T apply(T a, T b) {        \
      return static_cast<T>(expression);    \
    }                                       \
  };

template <class T>
MX_HD T added(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <class T>
MX_HD T subtracted(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return added(a, negated(b));
  else
    return a - b;
}

// Integer division by zero gives 0. The smallest integer divided by -1 wraps around.
template <class T>
MX_HD T divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return negated(a);
  }
  return a / b;
}

// Python's sign rule: the result has the divisor's sign. A zero divisor gives 0, as in 1.x.
template <class T>
MX_HD T modulo(T a, T b) {
  if (b == T(0)) return T(0);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(0);
      const T r = a % b;
      return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
    } else {
      return a % b;
    }
  } else {
    const T r = std::fmod(a, b);
    return r == T(0) ? std::copysign(r, b) : (r < T(0)) != (b < T(0)) ? r + b : r;
  }
}

// Computes integer powers by squaring. Negative exponents truncate towards zero (0 to a negative
// power gives 0).
template <class T>
MX_HD T power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
    T result = 1;
    for (; b != T(0); b >>= 1) {
      if (b & 1) result = multiplied(result, a);
      a = multiplied(a, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

template <class T>
MX_HD T hypotenuse(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::hypot(static_cast<double>(a), static_cast<double>(b)));
  else
    return std::hypot(a, b);
}

MX_BINARY(Add, "add", added(a, b))
MX_BINARY(Sub, "sub", subtracted(a, b))
MX_BINARY(Mul, "mul", multiplied(a, b))
MX_BINARY(Div, "div", divided(a, b))
MX_BINARY(Mod, "mod", modulo(a, b))
MX_BINARY(Power, "power", power(a, b))
// Returns NaN if either value is NaN.
MX_BINARY(Maximum, "maximum", (a > b || a != a) ? a : b)
MX_BINARY(Minimum, "minimum", (a < b || a != a) ? a : b)
MX_BINARY(Hypot, "hypot", hypotenuse(a, b))
MX_BINARY(Equal, "equal", a == b ? T(1) : T(0))
MX_BINARY(NotEqual, "not_equal", a != b ? T(1) : T(0))
MX_BINARY(Greater, "greater", a > b ? T(1) : T(0))
MX_BINARY(GreaterEqual, "greater_equal", a >= b ? T(1) : T(0))
MX_BINARY(Lesser, "lesser", a < b ? T(1) : T(0))
MX_BINARY(LesserEqual, "lesser_equal", a <= b ? T(1) : T(0))
MX_BINARY(LogicalAnd, "logical_and", (a != T(0)) & (b != T(0)) ? T(1) : T(0))
MX_BINARY(LogicalOr, "logical_or", (a != T(0)) | (b != T(0)) ? T(1) : T(0))
MX_BINARY(LogicalXor, "logical_xor", (a != T(0)) != (b != T(0)) ? T(1) : T(0))

// Backward functions that have kernels; a is the output's gradient. In _relu_backward, b is the
// output, and the result is NaN where b is NaN.
MX_BINARY(ReluBackward, "_relu_backward", b > T(0) ? a : b <= T(0) ? T(0) : b)
MX_BINARY(SigmoidBackward, "_sigmoid_backward", a* b*(T(1) - b))  // b is the output
MX_BINARY(TanhBackward, "_tanh_backward", a*(T(1) - b * b))       // b is the output

#undef MX_BINARY

using BinaryArithmetic = FunctorList<Add, Sub, Mul, Div, Mod, Power, Maximum, Minimum, Hypot>;
using BinaryLogic = FunctorList<Equal, NotEqual, Greater, GreaterEqual, Lesser, LesserEqual,
                                LogicalAnd, LogicalOr, LogicalXor>;
using BinaryBackward = FunctorList<ReluBackward, SigmoidBackward, TanhBackward>;

}  // namespace mxlite::pointwise
