// Functions of chains and of Activation that are not operators, and the slopes of all activations:
// the factor of the output's gradient as a function of the saved value (the output, or data for
// softsign).
#pragma once
#include "cpp/ops/pointwise/binary_functors.h"

namespace mxlite::pointwise {

struct Identity {
  template <class T>
  static MX_HD T apply(T x, const T*) {
    return x;
  }
};

struct Softrelu {
  template <class T>
  static MX_HD T apply(T x, const T*) {
    return softrelu_of(x);
  }
};
struct SoftreluBackward {
  template <class T>
  static MX_HD T apply(T grad, T y) {
    return grad * -expm1_of(-y);
  }
};
struct SoftsignBackward {
  template <class T>
  static MX_HD T apply(T grad, T x) {
    const T base = T(1) + std::fabs(x);
    return grad / (base * base);
  }
};
// This functor also computes in integers.
struct ReluSlope {
  template <class T>
  static MX_HD T apply(T grad, T y) {
    return y > T(0) ? grad : T(0);
  }
};

}  // namespace mxlite::pointwise
