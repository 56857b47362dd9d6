// Compares the float functions that loops vectorize with the standard library in double.
#include <gtest/gtest.h>

#include "cpp/ops/pointwise/math.h"

namespace mxlite::pointwise {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns the largest error on [low, high], in units of the result's last place.
double worst_ulp(float (*fn)(float), double (*exact)(double), float low, float high) {
  constexpr int kPoints = 200'000;
  double worst = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const float x = low + (high - low) * (static_cast<float>(i) / kPoints);
    const double want = exact(static_cast<double>(x));
    const float near = std::fabs(static_cast<float>(want));
    const double ulp = static_cast<double>(std::nextafter(near, kInf)) - near;
    worst = std::max(worst, std::fabs(static_cast<double>(fn(x)) - want) / ulp);
  }
  return worst;
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(PointwiseMath, FloatFunctionsAreWithinTwoAndAHalfUnitsInTheLastPlace) {
  EXPECT_LT(worst_ulp(exp_of, std::exp, -103, 88.7f), 2.5);
  EXPECT_LT(worst_ulp(exp_of, std::exp, -1, 1), 2.5);
  EXPECT_LT(worst_ulp(exp_of_negative, std::exp, -103, 0), 2.5);
  EXPECT_LT(worst_ulp(expm1_of, std::expm1, -30, 88), 2.5);
  EXPECT_LT(worst_ulp(expm1_of, std::expm1, -1, 1), 2.5);
  EXPECT_LT(worst_ulp(log_of, std::log, 1e-6f, 1000), 2.5);
  EXPECT_LT(worst_ulp(log_of, std::log, 0.5f, 2), 2.5);
  EXPECT_LT(worst_ulp(log1p_of, std::log1p, -0.99f, 5), 2.5);
  EXPECT_LT(worst_ulp(log1p_of, std::log1p, -0.01f, 0.01f), 2.5);
  EXPECT_LT(worst_ulp(log1p_of_unit, std::log1p, 0, 1), 2.5);
  EXPECT_LT(worst_ulp(tanh_of, std::tanh, -10, 10), 2);
  EXPECT_LT(worst_ulp(tanh_of, std::tanh, -1, 1), 2);
  EXPECT_LT(worst_ulp(erf_of, std::erf, -5, 5), 2.5);
  EXPECT_LT(worst_ulp(erf_of, std::erf, -1.1f, 1.1f), 2.5);
  EXPECT_LT(worst_ulp(sigmoid_of<float>, exact_sigmoid, -80, 80), 2.5);
}

TEST(PointwiseMath, SubnormalArgumentsAndResultsKeepTheirDigits) {
  EXPECT_FLOAT_EQ(log_of(1e-40f), std::log(1e-40f));
  EXPECT_NEAR(exp_of(-100.0f), std::exp(-100.0f), 2e-45);
  EXPECT_NEAR(exp_of_negative(-100.0f), std::exp(-100.0f), 2e-45);
  EXPECT_EQ(tanh_of(1e-40f), 1e-40f);
}

TEST(PointwiseMath, ValuesThatAreNoNumbersFollowTheStandard) {
  for (float (*fn)(float) : {exp_of, exp_of_negative, expm1_of, log_of, log1p_of, log1p_of_unit,
                             tanh_of, erf_of, sigmoid_of<float>})
    EXPECT_TRUE(std::isnan(fn(kNan)));
  EXPECT_EQ(exp_of(kInf), kInf);
  EXPECT_EQ(exp_of(89.0f), kInf);
  EXPECT_EQ(exp_of(-kInf), 0.0f);
  EXPECT_EQ(exp_of_negative(-kInf), 0.0f);
  EXPECT_EQ(expm1_of(-kInf), -1.0f);
  EXPECT_EQ(expm1_of(kInf), kInf);
  EXPECT_EQ(log_of(0.0f), -kInf);
  EXPECT_EQ(log_of(kInf), kInf);
  EXPECT_TRUE(std::isnan(log_of(-1.0f)));
  EXPECT_EQ(log1p_of(-1.0f), -kInf);
  EXPECT_EQ(log1p_of(kInf), kInf);
  EXPECT_EQ(tanh_of(-kInf), -1.0f);
  EXPECT_EQ(erf_of(kInf), 1.0f);
  EXPECT_EQ(sigmoid_of(-kInf), 0.0f);
}

TEST(PointwiseMath, SpecialFunctionsMeetTheirDefiningEquations) {
  for (const double y : {-0.999999, -0.7, -0.1, 0.0, 0.3, 0.95, 0.9999999})
    EXPECT_NEAR(std::erf(erfinv_of(y)), y, 1e-14);
  EXPECT_NEAR(digamma_of(1.0), -0.57721566490153286, 1e-13);
  EXPECT_NEAR(trigamma_of(1.0), 1.6449340668482264, 1e-11);
  for (const double x : {0.2, 1.7, 5.0, 30.0, -0.4, -2.6}) {
    EXPECT_NEAR(digamma_of(x + 1), digamma_of(x) + 1 / x, 1e-11);
    EXPECT_NEAR(trigamma_of(x + 1), trigamma_of(x) - 1 / (x * x), 1e-9);
  }
  EXPECT_EQ(digamma_of(-2.0), kInf);  // as 1.x has it at the poles
  for (const double x : {1e-40, 0.3, 0.99999994, 1.0, 2.5, 7.99, 8.0, 25.0, 33.0, 1e5, 1e30}) {
    const ShiftedGamma g = shifted_gamma(x);
    const double want = std::lgamma(x);
    EXPECT_NEAR(g.log_gamma - std::log(g.product), want, 2e-14 * std::max(1.0, std::fabs(want)));
  }
}

}  // namespace
}  // namespace mxlite::pointwise
