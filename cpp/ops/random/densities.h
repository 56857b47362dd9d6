// Logarithms of probability densities at x with one or two parameters, for kernels of all devices.
#pragma once
#include <math.h>  // for lgamma_r, because std::lgamma writes a global variable

#include <cmath>

#include "cpp/base/host_device.h"

namespace mxlite::random {

constexpr double kNever = -HUGE_VAL;

MX_HOST_DEVICE inline double log_gamma(double x) {
#ifdef __CUDA_ARCH__
  return ::lgamma(x);
#else
  int sign;
  return ::lgamma_r(x, &sign);
#endif
}

struct UniformDensity {
  static constexpr const char* name = "uniform";
  MX_HOST_DEVICE double operator()(double x, double low, double high) const {
    return x < low || x > high ? kNever : -std::log(high - low);
  }
};
struct NormalDensity {
  static constexpr const char* name = "normal";
  MX_HOST_DEVICE double operator()(double x, double mu, double sigma) const {
    constexpr double kLogRootTwoPi = 0.91893853320467274;
    const double z = (x - mu) / sigma;
    return -0.5 * z * z - std::log(sigma) - kLogRootTwoPi;
  }
};
struct GammaDensity {
  static constexpr const char* name = "gamma";
  MX_HOST_DEVICE double operator()(double x, double alpha, double beta) const {
    if (x < 0) return kNever;
    const double power = alpha == 1 ? 0 : (alpha - 1) * std::log(x);  // defines 0 * log(0) as 0
    return alpha * std::log(beta) + power - beta * x - log_gamma(alpha);
  }
};
struct ExponentialDensity {
  static constexpr const char* name = "exponential";
  MX_HOST_DEVICE double operator()(double x, double lam, double) const {
    return x < 0 ? kNever : std::log(lam) - lam * x;
  }
};
struct PoissonDensity {
  static constexpr const char* name = "poisson";
  MX_HOST_DEVICE double operator()(double x, double lam, double) const {
    if (x < 0) return kNever;
    return (x == 0 ? 0 : x * std::log(lam)) - lam - log_gamma(x + 1);
  }
};
struct NegativeBinomialDensity {
  static constexpr const char* name = "negative_binomial";
  MX_HOST_DEVICE double operator()(double x, double k, double p) const {
    if (x < 0) return kNever;
    const double failures = x == 0 ? 0 : x * std::log1p(-p);
    return log_gamma(x + k) - log_gamma(x + 1) - log_gamma(k) + k * std::log(p) + failures;
  }
};
struct GeneralizedNegativeBinomialDensity {
  static constexpr const char* name = "generalized_negative_binomial";
  MX_HOST_DEVICE double operator()(double x, double mu, double alpha) const {
    return NegativeBinomialDensity()(x, 1 / alpha, 1 / (mu * alpha + 1));
  }
};

// Returns the term of one class of a Dirichlet density, without log_gamma of the sum of alphas.
MX_HOST_DEVICE inline double dirichlet_term(double x, double alpha) {
  return (alpha == 1 ? 0 : (alpha - 1) * std::log(x)) - log_gamma(alpha);
}

// Calls fn(D{}) for each density.
void for_each_density(auto&& fn) {
  fn(UniformDensity{});
  fn(NormalDensity{});
  fn(GammaDensity{});
  fn(ExponentialDensity{});
  fn(PoissonDensity{});
  fn(NegativeBinomialDensity{});
  fn(GeneralizedNegativeBinomialDensity{});
}

}  // namespace mxlite::random
