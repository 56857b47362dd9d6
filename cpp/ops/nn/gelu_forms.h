// Values and derivatives of the two forms of GELU, written for vectorized loops.
#pragma once
#include "cpp/ops/pointwise/math.h"

namespace mxlite {

// x * Phi(x), where Phi is the standard normal distribution function.
struct ErfGelu {
  template <class A>
  static MX_HD A value(A x) {
    return x * static_cast<A>(0.5) * (1 + pointwise::erf_of(x * static_cast<A>(M_SQRT1_2)));
  }
  template <class A>
  static MX_HD A slope(A x) {
    const A density = pointwise::exp_of(x * x * static_cast<A>(-0.5)) *
                      static_cast<A>(M_2_SQRTPI * M_SQRT1_2 / 2);
    return static_cast<A>(0.5) * (1 + pointwise::erf_of(x * static_cast<A>(M_SQRT1_2))) +
           x * density;
  }
};

// The approximation 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
struct TanhGelu {
  static constexpr double kTwice = 1.5957691216057307117, kCubic = 0.044715;  // 2 sqrt(2 / pi)

  template <class A>
  static MX_HD A value(A x) {
    return x *
           pointwise::sigmoid_of(static_cast<A>(kTwice) * (x + static_cast<A>(kCubic) * x * x * x));
  }
  template <class A>
  static MX_HD A slope(A x) {
    // Clamps x, because beyond this limit the derivative is 0 or 1, but its factors would be 0 *
    // infinity.
    const A limit = static_cast<A>(16);
    const A near_zero = x < -limit ? -limit : (x > limit ? limit : x);  // keeps NaN
    const A square = near_zero * near_zero;
    const A twice = static_cast<A>(kTwice) * near_zero * (1 + static_cast<A>(kCubic) * square);
    const A growth = static_cast<A>(kTwice) * (1 + static_cast<A>(3 * kCubic) * square);
    // Computes sigmoid and 1 - sigmoid without a subtraction that cancels digits.
    const A e = pointwise::exp_of_negative(-std::fabs(twice));
    const A larger = 1 / (1 + e), smaller = e / (1 + e);
    return (twice < 0 ? smaller : larger) + near_zero * larger * smaller * growth;
  }
};

}  // namespace mxlite
