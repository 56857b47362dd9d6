// Element-wise functions that only numpy mode has, or that differ from 1.x's in numpy mode.
#pragma once
#include <string>
#include <string_view>

#include "cpp/ops/pointwise/binary_functors.h"

namespace mxlite::pointwise {

// Rounds towards minus infinity. Integers divided by zero give 0, as in NumPy.
template <class T>
MX_HD T floor_divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const T quotient = divided(a, b);
    if constexpr (std::is_signed_v<T>)
      if (b != T(0) && b != T(-1) && a % b != T(0) && (a < T(0)) != (b < T(0)))
        return quotient - T(1);
    return quotient;
  } else {
    if (b == T(0)) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (rest < T(0)) != (b < T(0))) quotient -= T(1);
    if (quotient == T(0)) return std::copysign(T(0), a / b);
    const T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  }
}

// Like modulo, except that a float divided by zero gives NaN.
template <class T>
MX_HD T remainder_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (b == T(0)) return std::numeric_limits<T>::quiet_NaN();
  return modulo(a, b);
}

// The result has the sign of a.
template <class T>
MX_HD T truncated_remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return T(0);
    return a % b;
  } else {
    return std::fmod(a, b);
  }
}

// The functions from here to shifted_right are only for integers.
template <class T>
MX_HD T common_divisor(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    a = a < T(0) ? negated(a) : a;
    b = b < T(0) ? negated(b) : b;
  }
  while (b != T(0)) {
    const T rest = truncated_remainder(a, b);
    a = b;
    b = rest;
  }
  return a;
}

template <class T>
MX_HD T common_multiple(T a, T b) {
  const T divisor = common_divisor(a, b);
  if (divisor == T(0)) return T(0);
  const T product = multiplied(divided(a, divisor), b);
  if constexpr (std::is_signed_v<T>) return product < T(0) ? negated(product) : product;
  return product;
}

// Shifts by a negative count, or by all bits or more, give 0. Right shifts of negative numbers give
// -1 instead.
template <class T>
MX_HD T shifted_left(T a, T count) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(count) >= sizeof(T) * 8) return T(0);
  return static_cast<T>(static_cast<U>(a) << count);
}
template <class T>
MX_HD T shifted_right(T a, T count) {
  using U = std::make_unsigned_t<T>;
  if (static_cast<U>(count) >= sizeof(T) * 8) return a < T(0) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> count);
}

template <class T>
MX_HD T log_of_exp_sum(T a, T b) {
  if (a == b) return a + T(0.6931471805599453);  // also correct for two infinities of one sign
  const T larger = a > b ? a : b;
  return larger + std::log1p(std::exp(-std::fabs(a - b)));
}

// Rounds halves to even numbers.
template <class T>
MX_HD T round_half_even(T x) {
  if constexpr (std::is_integral_v<T>)
    return x;
  else
    return std::nearbyint(x);
}

template <class T>
MX_HD bool has_sign(T x) {
  if constexpr (std::is_integral_v<T>)
    return x < T(0);
  else
    return std::signbit(x);
}

template <class T>
MX_HD T inverted(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(~x);
  else
    return x;
}

// Computes an expression for integers. The shape rule refuses floats.
#define MX_INTEGERS(expression)          \
  [&] {                                  \
    if constexpr (std::is_integral_v<T>) \
      return expression;                 \
    else                                 \
      return a;                          \
  }()

#define MX_NUMPY_BINARY(Type, op, only_floats, expression) \
  struct Type {                                            \
    static constexpr const char* name = op;                \
    static constexpr bool floating = only_floats;          \
    template <class T>                                     \
    static MX_HD T apply(T a, T b) {                       \
      return static_cast<T>(expression);                   \
    }                                                      \
  };

MX_NUMPY_BINARY(FloorDivide, "_npi_floor_divide", false, floor_divided(a, b))
MX_NUMPY_BINARY(NumpyMod, "_npi_mod", false, remainder_of(a, b))
MX_NUMPY_BINARY(Fmod, "_npi_fmod", false, truncated_remainder(a, b))
// If one operand is NaN, the result is the other operand.
MX_NUMPY_BINARY(Fmax, "_npi_fmax", false, (a > b || b != b) ? a : b)
MX_NUMPY_BINARY(Fmin, "_npi_fmin", false, (a < b || b != b) ? a : b)
MX_NUMPY_BINARY(Gcd, "_npi_gcd", false, MX_INTEGERS(common_divisor(a, b)))
MX_NUMPY_BINARY(Lcm, "_npi_lcm", false, MX_INTEGERS(common_multiple(a, b)))
MX_NUMPY_BINARY(BitwiseAnd, "_npi_bitwise_and", false, MX_INTEGERS(a& b))
MX_NUMPY_BINARY(BitwiseOr, "_npi_bitwise_or", false, MX_INTEGERS(a | b))
MX_NUMPY_BINARY(BitwiseXor, "_npi_bitwise_xor", false, MX_INTEGERS(a ^ b))
MX_NUMPY_BINARY(LeftShift, "_npi_left_shift", false, MX_INTEGERS(shifted_left(a, b)))
MX_NUMPY_BINARY(RightShift, "_npi_right_shift", false, MX_INTEGERS(shifted_right(a, b)))
MX_NUMPY_BINARY(Arctan2, "_npi_arctan2", true, std::atan2(a, b))
MX_NUMPY_BINARY(Copysign, "_npi_copysign", true, std::copysign(a, b))
MX_NUMPY_BINARY(Logaddexp, "_npi_logaddexp", true, log_of_exp_sum(a, b))
MX_NUMPY_BINARY(Nextafter, "_npi_nextafter", true, std::nextafter(a, b))

#undef MX_NUMPY_BINARY
#undef MX_INTEGERS

#define MX_NUMPY_UNARY(Type, op, expression)    \
  struct Type {                                 \
    static constexpr const char* name = op;     \
    static constexpr bool math = false;         \
    static constexpr int num_args = 0;          \
    template <class T>                          \
    static MX_HD T apply(T x, const T* /*p*/) { \
      return static_cast<T>(expression);        \
    }                                           \
  };

MX_NUMPY_UNARY(RintHalfEven, "_npi_rint", round_half_even(x))
MX_NUMPY_UNARY(Invert, "_npi_bitwise_not", inverted(x))
MX_NUMPY_UNARY(Signbit, "signbit", has_sign(x) ? T(1) : T(0))

#undef MX_NUMPY_UNARY

// Returns the name in numpy mode of a comparison or predicate of mx.nd.
inline std::string numpy_name(std::string_view name) {
  if (name.starts_with("_contrib_")) name.remove_prefix(sizeof("_contrib_") - 1);
  const std::string_view order = name.starts_with("lesser") ? "lesser" : "";
  name.remove_prefix(order.size());
  return std::string("_npi_") + (order.empty() ? "" : "less") + std::string(name);
}

using NumpyPredicates = FunctorList<IsNan, IsInf, IsFinite, LogicalNot, Signbit>;
using NumpyBinary =
    FunctorList<FloorDivide, NumpyMod, Fmod, Fmax, Fmin, Gcd, Lcm, BitwiseAnd, BitwiseOr,
                BitwiseXor, LeftShift, RightShift, Arctan2, Copysign, Logaddexp, Nextafter>;

}  // namespace mxlite::pointwise
