// Elementary functions without branches, so that loops over float vectorize, and special functions
// that the standard library lacks. Usable on host and device.
#pragma once
#include <bit>
#include <cmath>
#include <limits>

#include "cpp/ops/pointwise/simd_math.h"

#ifdef __CUDACC__
#define MX_HD __host__ __device__ inline
#elif defined(__GNUC__)
// Functions must be inlined, because a loop that contains a call is not vectorized.
#define MX_HD __attribute__((always_inline)) inline
#else
#define MX_HD inline
#endif

namespace mxlite::pointwise {

// Coefficients below: least-squares fits weighted towards the relative error of the result; each
// float function is within 2.5 ulp of the exact value (tests/cpp/pointwise_math_test.cc).

// Returns 2 to the power of n + more. If n was computed from NaN, n is arbitrary and the sum may
// wrap; the result is then not used.
MX_HD float power_of_two(int n, int more = 0) {
  const unsigned biased = static_cast<unsigned>(n) + static_cast<unsigned>(more) + 127u;
  return std::bit_cast<float>(biased << 23);
}

// Returns exp(x) - 1 for |x| <= ln(2) / 2.
MX_HD float expm1_reduced(float r) {
  float q = 1.3951711589e-03f;
  q = q * r + 8.3695994690e-03f;
  q = q * r + 4.1666187346e-02f;
  q = q * r + 1.6666512191e-01f;
  q = q * r + 5.0000000000e-01f;
  return q * r * r + r;
}

struct ExpParts {
  float rest;  // x - n * ln(2)
  int n;
};
MX_HD ExpParts split_exponent(float x) {
  const float n = std::nearbyint(x * 1.44269504f);
  return {(x - n * 0.693359375f) + n * 2.12194440e-4f, static_cast<int>(n)};
}

MX_HD float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;  // this form keeps NaN
  x = x > 89.0f ? 89.0f : x;
  const ExpParts p = split_exponent(x);
  // Multiplies by two factors, because the result may be subnormal or infinite although the factors
  // are not.
  const int half = p.n / 2;
  return (1.0f + expm1_reduced(p.rest)) * power_of_two(half) * power_of_two(p.n - half);
}
MX_HD double exp_of(double x) { return std::exp(x); }

// If x <= 0, the scale is normal after 64 doublings, which are undone exactly unless the result is
// subnormal.
MX_HD float exp_of_negative(float x) {
  const ExpParts p = split_exponent(x < -104.0f ? -104.0f : x);
  return (1.0f + expm1_reduced(p.rest)) * power_of_two(p.n, 64) * 0x1p-64f;
}
MX_HD double exp_of_negative(double x) { return std::exp(x); }

MX_HD float expm1_of(float x) {
  const float low = x < -20.0f ? -20.0f : x;
  const float y = low > 89.0f ? 89.0f : low;
  const ExpParts p = split_exponent(y);
  const float scale = power_of_two(p.n, -1);  // half of the scale, because n may be 128
  const float result = (expm1_reduced(p.rest) * scale + (scale - 0.5f)) * 2.0f;
  return p.n == 0 ? std::copysign(expm1_reduced(y), y) : result;  // keeps -0
}
MX_HD double expm1_of(double x) { return std::expm1(x); }

// Returns log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], plus n * ln(2).
MX_HD float log_reduced(float f, float n) {
  float q = 6.7464902997e-02f;
  q = q * f - 1.1675615609e-01f;
  q = q * f + 1.1888211966e-01f;
  q = q * f - 1.2405598164e-01f;
  q = q * f + 1.4219546318e-01f;
  q = q * f - 1.6667994857e-01f;
  q = q * f + 2.0002119243e-01f;
  q = q * f - 2.5000008941e-01f;
  q = q * f + 3.3333313465e-01f;
  const float square = f * f;
  float tail = q * f * square - 2.12194440e-4f * n;
  tail -= 0.5f * square;
  return f + tail + 0.693359375f * n;
}

MX_HD float log_of(float x) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool subnormal = x < 1.17549435e-38f;
  const float scaled = subnormal ? x * 8388608.0f : x;
  const int bits = static_cast<int>(std::bit_cast<unsigned>(scaled) - 0x3f3504f3u);  // sqrt(1/2)
  const int n = bits >> 23;
  const float mantissa = std::bit_cast<float>((bits & 0x007fffff) + 0x3f3504f3);
  const float shift = subnormal ? 23.0f : 0.0f;
  float result = log_reduced(mantissa - 1.0f, static_cast<float>(n) - shift);
  result = x == kInf ? kInf : result;
  result = x == 0.0f ? -kInf : result;
  return x >= 0.0f ? result : std::numeric_limits<float>::quiet_NaN();
}
MX_HD double log_of(double x) { return std::log(x); }

MX_HD float log1p_of(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;  // rounding error of 1 + x
  const float result = log_of(u);
  return (u > 0.0f && u <= 3.4e38f) ? (u == 1.0f ? x : result + lost) : result;
}
MX_HD double log1p_of(double x) { return std::log1p(x); }

// Returns log(1 + x) for x in [0, 1].
MX_HD float log1p_of_unit(float x) {
  const float u = 1.0f + x;
  const float lost = (x - (u - 1.0f)) / u;
  const bool upper = u > 1.41421354f;
  return log_reduced((upper ? 0.5f * u : u) - 1.0f, upper ? 1.0f : 0.0f) + lost;
}
MX_HD double log1p_of_unit(double x) { return std::log1p(x); }

// tanh(a) = t / (t + 2) for t = exp(2 a) - 1, without a branch for small a.
MX_HD float tanh_of(float x) {
  const float a = std::fabs(x);
  const ExpParts p = split_exponent(a > 10.0f ? 20.0f : 2.0f * a);
  const float scale = power_of_two(p.n);
  const float t = expm1_reduced(p.rest) * scale + (scale - 1.0f);
  const float sum = t + 2.0f, lost = t - (sum - 2.0f);  // rounding error of t + 2
  const float inverse = 1.0f / sum, quotient = t * inverse;
  const float rest = std::fma(-quotient, sum, t) - quotient * lost;
  return std::copysign(quotient + rest * inverse, x);  // keeps -0
}
MX_HD double tanh_of(double x) { return std::tanh(x); }

template <class T>
MX_HD T sigmoid_of(T x) {
  const T e = exp_of_negative(-std::fabs(x));
  const T positive = T(1) / (T(1) + e);
  return x < T(0) ? e * positive : positive;
}

MX_HD float erf_of(float x) {
  const float a = std::fabs(x), z = x * x;
  float p = -9.6801259133e-06f;
  p = p * z + 1.1270540563e-04f;
  p = p * z - 8.4847107064e-04f;
  p = p * z + 5.2210749127e-03f;
  p = p * z - 2.6865445077e-02f;
  p = p * z + 1.1283782870e-01f;
  p = p * z - 3.7612637877e-01f;
  p = p * z + 1.1283792257e+00f;
  const float b = a > 4.0f ? 4.0f : a;
  float q = 7.8450858609e-07f;  // log(erfc(b))
  q = q * b - 1.2452571355e-05f;
  q = q * b + 6.4339837991e-05f;
  q = q * b + 1.0176726937e-04f;
  q = q * b - 3.3602893818e-03f;
  q = q * b + 2.3836543784e-02f;
  q = q * b - 1.0696154088e-01f;
  q = q * b - 6.3419610262e-01f;
  q = q * b - 1.1292039156e+00f;
  q = q * b + 1.2529551168e-04f;
  const float far = std::copysign(1.0f - exp_of_negative(q), x);
  return a < 1.0f ? p * x : far;
}
MX_HD double erf_of(double x) { return std::erf(x); }

// Returns log(1 + exp(x)) without overflow.
template <class T>
MX_HD T softrelu_of(T x) {
  return (x > T(0) ? x : T(0)) + log1p_of_unit(exp_of_negative(-std::fabs(x)));
}

// Inverse of erf with Giles' single-precision polynomials. Both polynomials are computed, so that
// loops vectorize.
MX_HD float erfinv_of(float y) {
  const float w = -log_of((1.0f - y) * (1.0f + y));
  const float c = w - 2.5f;
  float p = 2.81022636e-08f;
  p = p * c + 3.43273939e-07f;
  p = p * c - 3.5233877e-06f;
  p = p * c - 4.39150654e-06f;
  p = p * c + 0.00021858087f;
  p = p * c - 0.00125372503f;
  p = p * c - 0.00417768164f;
  p = p * c + 0.246640727f;
  p = p * c + 1.50140941f;
  const float t = std::sqrt(w) - 3.0f;
  float q = -0.000200214257f;
  q = q * t + 0.000100950558f;
  q = q * t + 0.00134934322f;
  q = q * t - 0.00367342844f;
  q = q * t + 0.00573950773f;
  q = q * t - 0.0076224613f;
  q = q * t + 0.00943887047f;
  q = q * t + 1.00167406f;
  q = q * t + 2.83297682f;
  const float inside = (w < 5.0f ? p : q) * y;
  const float a = std::fabs(y);
  const float edge = a == 1.0f ? std::copysign(std::numeric_limits<float>::infinity(), y)
                               : std::numeric_limits<float>::quiet_NaN();
  return a < 1.0f ? inside : edge;
}

// Inverse of erf in double: a polynomial as initial value, then Newton steps.
MX_HD double erfinv_of(double y) {
  if (!(y > -1.0 && y < 1.0)) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    return y == 1.0 ? kInf : y == -1.0 ? -kInf : std::numeric_limits<double>::quiet_NaN();
  }
  double w = -std::log((1.0 - y) * (1.0 + y));
  double p;
  if (w < 5.0) {
    w -= 2.5;
    p = 2.81022636e-08;
    p = p * w + 3.43273939e-07;
    p = p * w - 3.5233877e-06;
    p = p * w - 4.39150654e-06;
    p = p * w + 0.00021858087;
    p = p * w - 0.00125372503;
    p = p * w - 0.00417768164;
    p = p * w + 0.246640727;
    p = p * w + 1.50140941;
  } else {
    w = std::sqrt(w) - 3.0;
    p = -0.000200214257;
    p = p * w + 0.000100950558;
    p = p * w + 0.00134934322;
    p = p * w - 0.00367342844;
    p = p * w + 0.00573950773;
    p = p * w - 0.0076224613;
    p = p * w + 0.00943887047;
    p = p * w + 1.00167406;
    p = p * w + 2.83297682;
  }
  double x = p * y;
  for (int step = 0; step < 2; ++step) {
    // Near 1, erfc keeps the digits that 1 - erf would lose.
    const double error = y > 0.5    ? (1.0 - y) - std::erfc(x)
                         : y < -0.5 ? std::erfc(-x) - (1.0 + y)
                                    : std::erf(x) - y;
    x -= error * 0.886226925452758 * std::exp(x * x);
  }
  return x;
}

// gamma(x) = exp(log_gamma) / product for x > 0. Arguments below 8 are increased by 8, where the
// asymptotic series is accurate to 15 digits.
struct ShiftedGamma {
  double log_gamma, product;
};
MX_HD ShiftedGamma shifted_gamma(double x) {
  const bool low = x < 8.0;
  const double y = low ? x + 8.0 : x, a = x * (x + 7.0);
  const double product = a * (a + 6.0) * (a + 10.0) * (a + 12.0);  // x (x + 1) ... (x + 7)
  const double r = 1.0 / y, z = r * r;
  double s = -3617.0 / 122400;
  s = s * z + 1.0 / 156;
  s = s * z - 691.0 / 360360;
  s = s * z + 1.0 / 1188;
  s = s * z - 1.0 / 1680;
  s = s * z + 1.0 / 1260;
  s = s * z - 1.0 / 360;
  s = s * z + 1.0 / 12;
  return {(y - 0.5) * std::log(y) - y + 0.91893853320467274178 + s * r, low ? product : 1.0};
}

// Derivative of log(gamma(x)): reflection formula, recurrence up to 10, then the asymptotic series.
MX_HD double digamma_of(double x) {
  constexpr double kPi = 3.14159265358979323846;
  double result = 0.0;
  if (x <= 0.0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::infinity();  // as in 1.x
    result = -kPi / std::tan(kPi * x);
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) result -= 1.0 / x;
  const double z = 1.0 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132)))));
  return result + std::log(x) - 0.5 / x - series;
}

// Derivative of digamma.
MX_HD double trigamma_of(double x) {
  constexpr double kPi = 3.14159265358979323846;
  double result = 0.0, sign = 1.0;
  if (x <= 0.0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    const double s = std::sin(kPi * x);
    result = kPi * kPi / (s * s);
    x = 1.0 - x;
    sign = -1.0;
  }
  for (; x < 10.0; x += 1.0) result += sign / (x * x);
  const double z = 1.0 / (x * x);
  const double series =
      1.0 / x + z / 2 + z / x * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42 - z / 30)));
  return result + sign * series;
}

}  // namespace mxlite::pointwise
