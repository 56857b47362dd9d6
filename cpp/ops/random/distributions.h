// The distributions: names, defaults and valid values of their parameters. A distribution has three
// operators: random_<name>(numbers, shape), sample_<name>(parameter arrays, shape of the draws per
// element) and _random_<name>_like(array, numbers).
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::random {

struct Uniform {
  static constexpr const char* name = "uniform";
  static constexpr const char* doc =
      "Draws from the uniform distribution between low and high, both excluded.";
  static constexpr int count = 2;
  static constexpr const char* a_name = "low";
  static constexpr const char* b_name = "high";
  static constexpr const char* sample_a = "low";
  static constexpr const char* sample_b = "high";
  static constexpr double a = 0, b = 1;
  static constexpr const char* expected = "low <= high";
  MX_HOST_DEVICE static bool legal(double low, double high) { return low <= high; }
};
struct Normal {
  static constexpr const char* name = "normal";
  static constexpr const char* doc =
      "Draws from the normal distribution; the parameters are its mean and its standard deviation.";
  static constexpr int count = 2;
  static constexpr const char* a_name = "loc";
  static constexpr const char* b_name = "scale";
  static constexpr const char* sample_a = "mu";
  static constexpr const char* sample_b = "sigma";
  static constexpr double a = 0, b = 1;
  static constexpr const char* expected = "scale >= 0";
  MX_HOST_DEVICE static bool legal(double, double scale) { return scale >= 0; }
};
struct Gamma {
  static constexpr const char* name = "gamma";
  static constexpr const char* doc =
      "Draws from the gamma distribution with shape alpha and scale beta.";
  static constexpr int count = 2;
  static constexpr const char* a_name = "alpha";
  static constexpr const char* b_name = "beta";
  static constexpr const char* sample_a = "alpha";
  static constexpr const char* sample_b = "beta";
  static constexpr double a = 1, b = 1;
  static constexpr const char* expected = "alpha > 0 and beta > 0";
  MX_HOST_DEVICE static bool legal(double alpha, double beta) {
    return alpha > 0 && alpha < 1e300 && beta > 0;
  }
};
struct Exponential {
  static constexpr const char* name = "exponential";
  static constexpr const char* doc =
      "Draws from the exponential distribution with rate lam, whose mean is 1 / lam.";
  static constexpr int count = 1;
  static constexpr const char* a_name = "lam";
  static constexpr const char* b_name = "";
  static constexpr const char* sample_a = "lam";
  static constexpr const char* sample_b = "";
  static constexpr double a = 1, b = 0;
  static constexpr const char* expected = "lam > 0";
  MX_HOST_DEVICE static bool legal(double lam, double) { return lam > 0; }
};
struct Poisson {
  static constexpr const char* name = "poisson";
  static constexpr const char* doc =
      "Draws from the Poisson distribution with rate lam, as floats.";
  static constexpr int count = 1;
  static constexpr const char* a_name = "lam";
  static constexpr const char* b_name = "";
  static constexpr const char* sample_a = "lam";
  static constexpr const char* sample_b = "";
  static constexpr double a = 1, b = 0;
  static constexpr const char* expected = "lam >= 0";
  MX_HOST_DEVICE static bool legal(double lam, double) { return lam >= 0; }
};
struct NegativeBinomial {
  static constexpr const char* name = "negative_binomial";
  static constexpr const char* doc =
      "Draws from the negative binomial distribution: numbers of failures before the k-th success, "
      "where p is the probability of a success.";
  static constexpr int count = 2;
  static constexpr const char* a_name = "k";
  static constexpr const char* b_name = "p";
  static constexpr const char* sample_a = "k";
  static constexpr const char* sample_b = "p";
  static constexpr double a = 1, b = 1;
  static constexpr const char* expected = "k > 0 and 0 < p <= 1";
  MX_HOST_DEVICE static bool legal(double k, double p) {
    return k > 0 && k < 1e300 && p > 0 && p <= 1;
  }
};
struct GeneralizedNegativeBinomial {
  static constexpr const char* name = "generalized_negative_binomial";
  static constexpr const char* doc =
      "Draws from the negative binomial distribution with mean mu and dispersion alpha; the "
      "variance is mu + alpha * mu^2.";
  static constexpr int count = 2;
  static constexpr const char* a_name = "mu";
  static constexpr const char* b_name = "alpha";
  static constexpr const char* sample_a = "mu";
  static constexpr const char* sample_b = "alpha";
  static constexpr double a = 1, b = 1;
  static constexpr const char* expected = "mu >= 0 and alpha >= 0";
  MX_HOST_DEVICE static bool legal(double mu, double alpha) {
    return mu >= 0 && alpha >= 0 && alpha < 1e300;
  }
};

// Returns whether an element of parameter arrays is valid. Draws for invalid elements are NaN.
template <class D>
MX_HOST_DEVICE bool drawable(D, double a, double b) {
  return D::legal(a, b);
}
// As in MXNet 1.x, the bounds may be in any order.
MX_HOST_DEVICE inline bool drawable(Uniform, double, double) { return true; }

void for_each_distribution(auto&& fn) {
  fn(Uniform{});
  fn(Normal{});
  fn(Gamma{});
  fn(Exponential{});
  fn(Poisson{});
  fn(NegativeBinomial{});
  fn(GeneralizedNegativeBinomial{});
}

// Parameters of random_<name>.
template <class D>
struct DrawParams {
  double a = D::a, b = D::b;
  std::optional<Shape> shape;
  std::string ctx;
  std::optional<DType> dtype;
  static constexpr auto fields() {
    const auto numbers = [] {
      const auto first = field(D::a_name, &DrawParams::a,
                               "Parameter of the distribution; see the description above.");
      if constexpr (D::count == 2)
        return std::tuple(first,
                          field(D::b_name, &DrawParams::b,
                                "Parameter of the distribution; see the description above."));
      else
        return std::tuple(first);
    };
    return std::tuple_cat(
        numbers(),
        std::tuple(
            field("shape", &DrawParams::shape, "Shape of the output; None means (1,).")
                .at_least(-1),
            field("ctx", &DrawParams::ctx,
                  "Device of the output, such as 'cpu(0)'; empty: the current device."),
            field("dtype", &DrawParams::dtype, "Element type of the output; None means float32.")));
  }
};

// Parameters of _random_<name>_like.
template <class D>
struct LikeParams {
  double a = D::a, b = D::b;
  static constexpr auto fields() {
    const auto first = field(D::a_name, &LikeParams::a,
                             "Parameter of the distribution; see the description above.");
    if constexpr (D::count == 2)
      return std::tuple(first, field(D::b_name, &LikeParams::b,
                                     "Parameter of the distribution; see the description above."));
    else
      return std::tuple(first);
  }
};

// Parameters of sample_<name>.
struct SampleParams {
  Shape shape;
  std::optional<DType> dtype;
  MX_FIELDS(
      SampleParams,
      MX_FIELD(
          shape,
          "Shape of the draws for each element of the parameter arrays, appended to their shape.")
          .at_least(0),
      MX_FIELD(dtype,
               "Element type of the output; None means that of the parameter arrays if it is a "
               "float type, else float32."))
};

struct RandintParams {
  int64_t low = 0, high = 0;
  std::optional<Shape> shape;
  std::string ctx;
  std::optional<DType> dtype;
  MX_FIELDS(RandintParams, MX_REQUIRED_FIELD(low, "Smallest value that can be drawn."),
            MX_REQUIRED_FIELD(high, "Upper end, which is not drawn."),
            MX_FIELD(shape, "Shape of the output; None means (1,).").at_least(-1),
            MX_FIELD(ctx, "Device of the output, such as 'cpu(0)'; empty: the current device."),
            MX_FIELD(dtype, "Element type of the output, int32 or int64; None means int32."))
};

struct MultinomialParams {
  Shape shape;
  bool get_prob = false;
  DType dtype = DType::kInt32;
  MX_FIELDS(
      MultinomialParams,
      MX_FIELD(shape, "Shape of the draws for each distribution; () draws one number.").at_least(0),
      MX_FIELD(get_prob, "Whether to also return the logarithm of the probability of each draw."),
      MX_FIELD(dtype, "Element type of the draws."))
};

// Returns the number of random counters that n elements need.
uint64_t counters_for(int64_t n);

// Throws if the parameters are invalid. Kernels call this function, because 1.x throws at a wait.
template <class D>
void check_numbers(const char* suffix, double a, double b) {
  const auto* op = suffix[0] ? "_random_" : "random_";
  if constexpr (D::count == 2)
    MX_CHECK(D::legal(a, b), op, D::name, suffix, ": ", "parameters must satisfy ", D::expected,
             ", got ", D::a_name, " ", a, " and ", D::b_name, " ", b);
  else
    MX_CHECK(D::legal(a, b), op, D::name, suffix, ": ", "parameters must satisfy ", D::expected,
             ", got ", D::a_name, " ", a);
}

}  // namespace mxlite::random
