// The binary functions of reductions (see accumulate.h), for every device.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpp/base/host_device.h"

namespace mxlite::reduce {

template <class T>
MX_HOST_DEVICE T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}
template <class T>
MX_HOST_DEVICE T times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    return a * b;
  }
}

struct Adding {
  template <class T>
  MX_HOST_DEVICE static T start() {
    return T(0);
  }
  template <class T>
  MX_HOST_DEVICE static T join(T a, T b) {
    return plus(a, b);
  }
};
struct Sum : Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return plus(total, x);
  }
};
struct NanSum : Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return plus(total, x == x ? x : T(0));
  }
};
struct SumAbs : Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return plus(total, x < T(0) ? plus(T(0), times(T(-1), x)) : x);
  }
};
struct SumSquares : Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T center) {
    return plus(total, times(x - center, x - center));
  }
};

struct Multiplying {
  template <class T>
  MX_HOST_DEVICE static T start() {
    return T(1);
  }
  template <class T>
  MX_HOST_DEVICE static T join(T a, T b) {
    return times(a, b);
  }
};
struct Prod : Multiplying {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return times(total, x);
  }
};
struct NanProd : Multiplying {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return times(total, x == x ? x : T(1));
  }
};

// Returns NaN if either value is NaN.
struct Max {
  template <class T>
  MX_HOST_DEVICE static T start() {
    if constexpr (std::is_integral_v<T>)
      return std::numeric_limits<T>::min();
    else
      return -std::numeric_limits<T>::infinity();
  }
  template <class T>
  MX_HOST_DEVICE static T join(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return (total > x || total != total) ? total : x;
  }
};
struct Min {
  template <class T>
  MX_HOST_DEVICE static T start() {
    if constexpr (std::is_integral_v<T>)
      return std::numeric_limits<T>::max();
    else
      return std::numeric_limits<T>::infinity();
  }
  template <class T>
  MX_HOST_DEVICE static T join(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T /*center*/) {
    return (total < x || total != total) ? total : x;
  }
};

struct MaxAbs : Max {
  template <class T>
  MX_HOST_DEVICE static T start() {
    return T(0);  // The result of no values is 0.
  }
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T center) {
    return Max::step(total, static_cast<T>(std::fabs(x)), center);
  }
};

// The center is the factor by which values are scaled.
struct SumScaledSquares : Adding {
  template <class T>
  MX_HOST_DEVICE static T step(T total, T x, T factor) {
    return total + (x * factor) * (x * factor);
  }
};

// Returns a power of two that scales the largest value to about 1.
template <class T>
MX_HOST_DEVICE T factor_for(double largest) {
  constexpr int kMost = std::numeric_limits<T>::max_exponent - 2;
  if (!(largest > 0) || largest > std::numeric_limits<double>::max()) return T(1);
  const int exponent = -std::ilogb(largest);
  const int limited = exponent < -kMost ? -kMost : exponent > kMost ? kMost : exponent;
  return static_cast<T>(std::ldexp(1.0, limited));
}

}  // namespace mxlite::reduce
