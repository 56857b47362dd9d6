// Element-wise functions of one value: the definition of each operator, once for all devices.
// "Math" functors exist for float and double (integers are computed in double, 16-bit floats in
// float); "arithmetic" functors exist for every type that compute_for_arithmetic returns.
#pragma once
#include <type_traits>

#include "cpp/ops/pointwise/math.h"

namespace mxlite::pointwise {

// Functors with parameters read them from `p` (see UnaryArgs in the kernel).
#define MX_UNARY(Type, op, kind, expression)    \
  struct Type {                                 \
    static constexpr const char* name = op;     \
    static constexpr bool math = kind;          \
    static constexpr int num_args = 0;          \
    template <class T>                          \
    static MX_HD T apply(T x, const T* /*p*/) { \
      return static_cast<T>(expression);        \
    }                                           \
  };
#define MX_UNARY_ARGS(Type, op, kind, expression) \
  struct Type {                                   \
    static constexpr const char* name = op;       \
    static constexpr bool math = kind;            \
    static constexpr int num_args = 2;            \
    template <class T>                            \
    static MX_HD T apply(T x, const T* p) {       \
      return static_cast<T>(expression);          \
    }                                             \
  };

template <class T>
MX_HD T negated(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
  else
    return -x;
}

template <class T>
MX_HD T multiplied(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) *
                          static_cast<std::make_unsigned_t<T>>(b));
  else
    return a * b;
}

// Rounds n + 1/2 down (1.x's rint), unlike C's rint.
template <class T>
MX_HD T rint_half_down(T x) {
  const T low = std::floor(x), high = std::ceil(x);
  return x - low <= high - x ? low : high;
}
template <class T>
MX_HD T round_half_away(T x) {
  // floor(x + 0.5) is not used, because the sum rounds 0.49999997 up to 1.
  const T whole = std::trunc(x);
  return whole + std::copysign(std::fabs(x - whole) >= T(0.5) ? T(1) : T(0), x);  // keeps -0
}
template <class T>
MX_HD T gamma_of(T x) {
  if (x == std::floor(x) && x < T(0)) return std::numeric_limits<T>::quiet_NaN();
  return static_cast<T>(std::tgamma(static_cast<double>(x)));
}

#define MX_PER_KIND(integral, floating)  \
  [&] {                                  \
    if constexpr (std::is_integral_v<T>) \
      return integral;                   \
    else                                 \
      return floating;                   \
  }()

MX_UNARY(Negative, "negative", false, negated(x))
MX_UNARY(Abs, "abs", false, MX_PER_KIND(x < T(0) ? negated(x) : x, std::fabs(x)))
// Keeps NaN.
MX_UNARY(Sign, "sign", false, x == x ? (x > T(0) ? T(1) : T(0)) - (x < T(0) ? T(1) : T(0)) : x)
MX_UNARY(Square, "square", false, multiplied(x, x))
MX_UNARY(Relu, "relu", false, x <= T(0) ? T(0) : x)  // keeps NaN; as in 1.x, -0 becomes 0
MX_UNARY(LogicalNot, "logical_not", false, x == T(0) ? T(1) : T(0))
MX_UNARY(Round, "round", false, MX_PER_KIND(x, round_half_away(x)))
MX_UNARY(Rint, "rint", false, MX_PER_KIND(x, rint_half_down(x)))
MX_UNARY(Ceil, "ceil", false, MX_PER_KIND(x, std::ceil(x)))
MX_UNARY(Floor, "floor", false, MX_PER_KIND(x, std::floor(x)))
MX_UNARY(Trunc, "trunc", false, MX_PER_KIND(x, std::trunc(x)))
MX_UNARY(Fix, "fix", false, MX_PER_KIND(x, std::trunc(x)))
MX_UNARY(IsNan, "_contrib_isnan", false, x != x ? T(1) : T(0))
MX_UNARY(IsInf, "_contrib_isinf", false,
         MX_PER_KIND(T(0), std::fabs(x) == std::numeric_limits<T>::infinity() ? T(1) : T(0)))
MX_UNARY(IsFinite, "_contrib_isfinite", false,
         MX_PER_KIND(T(1), std::fabs(x) <= std::numeric_limits<T>::max() ? T(1) : T(0)))

MX_UNARY(Sqrt, "sqrt", true, std::sqrt(x))
MX_UNARY(Rsqrt, "rsqrt", true, T(1) / std::sqrt(x))
MX_UNARY(Cbrt, "cbrt", true, std::cbrt(x))
MX_UNARY(Rcbrt, "rcbrt", true, T(1) / std::cbrt(x))
MX_UNARY(Exp, "exp", true, exp_of(x))
MX_UNARY(Expm1, "expm1", true, expm1_of(x))
MX_UNARY(Log, "log", true, log_of(x))
MX_UNARY(Log10, "log10", true, std::log10(x))
MX_UNARY(Log2, "log2", true, std::log2(x))
MX_UNARY(Log1p, "log1p", true, log1p_of(x))
MX_UNARY(Sin, "sin", true, std::sin(x))
MX_UNARY(Cos, "cos", true, std::cos(x))
MX_UNARY(Tan, "tan", true, std::tan(x))
MX_UNARY(Arcsin, "arcsin", true, std::asin(x))
MX_UNARY(Arccos, "arccos", true, std::acos(x))
MX_UNARY(Arctan, "arctan", true, std::atan(x))
MX_UNARY(Sinh, "sinh", true, std::sinh(x))
MX_UNARY(Cosh, "cosh", true, std::cosh(x))
MX_UNARY(Tanh, "tanh", true, tanh_of(x))
MX_UNARY(Arcsinh, "arcsinh", true, std::asinh(x))
MX_UNARY(Arccosh, "arccosh", true, std::acosh(x))
MX_UNARY(Arctanh, "arctanh", true, std::atanh(x))
MX_UNARY(Degrees, "degrees", true, x* T(57.29577951308232))
MX_UNARY(Radians, "radians", true, x* T(0.017453292519943295))
MX_UNARY(Reciprocal, "reciprocal", true, T(1) / x)
MX_UNARY(Sigmoid, "sigmoid", true, sigmoid_of(x))
MX_UNARY(Softsign, "softsign", true, x / (T(1) + std::fabs(x)))
MX_UNARY(Erf, "erf", true, erf_of(x))
MX_UNARY(Erfinv, "erfinv", true, erfinv_of(x))
MX_UNARY(Gamma, "gamma", true, gamma_of(x))
MX_UNARY(GammaLn, "gammaln", true, std::lgamma(static_cast<double>(x)))
MX_UNARY(Digamma, "_digamma", true, digamma_of(static_cast<double>(x)))
MX_UNARY(Trigamma, "_trigamma", true, trigamma_of(static_cast<double>(x)))

// `p`: lower and upper bound. Keeps NaN.
MX_UNARY_ARGS(Clip, "clip", false, x > p[1] ? p[1] : (x < p[0] ? p[0] : x))
// `p`: sigma squared.
MX_UNARY_ARGS(SmoothL1, "smooth_l1", true,
              std::fabs(x) * p[0] < T(1) ? T(0.5) * x * x * p[0] : std::fabs(x) - T(0.5) / p[0])
// `p`: slope and offset.
MX_UNARY_ARGS(HardSigmoid, "hard_sigmoid", true,
              p[0] * x + p[1] < T(0) ? T(0) : (p[0] * x + p[1] > T(1) ? T(1) : p[0] * x + p[1]))

#undef MX_PER_KIND
#undef MX_UNARY
#undef MX_UNARY_ARGS

template <class... F>
struct FunctorList {};
using UnaryArithmetic = FunctorList<Negative, Abs, Sign, Square, Relu, LogicalNot, Round, Rint,
                                    Ceil, Floor, Trunc, Fix, IsNan, IsInf, IsFinite>;
using UnaryMath1 = FunctorList<Sqrt, Rsqrt, Cbrt, Rcbrt, Exp, Expm1, Log, Log10, Log2, Log1p, Sin,
                               Cos, Tan, Arcsin, Arccos, Arctan>;
using UnaryMath2 =
    FunctorList<Sinh, Cosh, Tanh, Arcsinh, Arccosh, Arctanh, Degrees, Radians, Reciprocal, Sigmoid,
                Softsign, Erf, Erfinv, Gamma, GammaLn, Digamma, Trigamma>;

}  // namespace mxlite::pointwise
