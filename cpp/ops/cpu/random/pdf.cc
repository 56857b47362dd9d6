// Densities are computed in double, through their logarithm.
#include "cpp/ops/random/pdf.h"

#include <math.h>  // lgamma_r: std::lgamma writes a global

#include <cmath>
#include <limits>

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"

namespace mxlite {
namespace random {
namespace {

using pointwise::kBlock;

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_gamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Logarithm of the density at x; parameters a and b.
using LogDensity = double (*)(double x, double a, double b);

double uniform(double x, double low, double high) {
  return x < low || x > high ? kNever : -std::log(high - low);
}
double normal(double x, double mu, double sigma) {
  constexpr double kLogRootTwoPi = 0.91893853320467274;
  const double z = (x - mu) / sigma;
  return -0.5 * z * z - std::log(sigma) - kLogRootTwoPi;
}
double gamma_density(double x, double alpha, double beta) {
  if (x < 0) return kNever;
  const double power = alpha == 1 ? 0 : (alpha - 1) * std::log(x);  // 0 * log(0) is 0 here
  return alpha * std::log(beta) + power - beta * x - log_gamma(alpha);
}
double exponential(double x, double lam, double) {
  return x < 0 ? kNever : std::log(lam) - lam * x;
}
double poisson(double x, double lam, double) {
  if (x < 0) return kNever;
  return (x == 0 ? 0 : x * std::log(lam)) - lam - log_gamma(x + 1);
}
double negative_binomial(double x, double k, double p) {
  if (x < 0) return kNever;
  const double failures = x == 0 ? 0 : x * std::log1p(-p);
  return log_gamma(x + k) - log_gamma(x + 1) - log_gamma(k) + k * std::log(p) + failures;
}
double generalized_negative_binomial(double x, double mu, double alpha) {
  return negative_binomial(x, 1 / alpha, 1 / (mu * alpha + 1));
}

// Reads elements of any floating dtype.
class Values {
 public:
  explicit Values(const TensorRef& t)
      : data_(t.as<std::byte>()),
        width_(static_cast<int64_t>(dtype_size(t.dtype))),
        load_(pointwise::load_fn(t.dtype, pointwise::Compute::kDouble)) {}
  double operator[](int64_t i) const {
    double value;
    load_(data_ + i * width_, 1, 1, &value);
    return value;
  }
  void read(int64_t first, int64_t n, double* to) const { load_(data_ + first * width_, 1, n, to); }

 private:
  const std::byte* data_;
  int64_t width_;
  pointwise::LoadFn load_;
};

template <LogDensity log_density>
void density(KernelContext&, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t size = out[0].size();
  if (size == 0) return;
  const int64_t row = size / in[1].size();  // samples of one parameter
  const Values samples(in[0]), first_param(in[1]), second_param(in.back());
  const auto store = pointwise::store_fn(pointwise::Compute::kDouble, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(out[0].dtype));
  pointwise::parallel_ranges(size, [&](int64_t first, int64_t last) {
    double block[kBlock];
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      samples.read(first, n, block);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = (first + i) / row;
        const double value = log_density(block[i], first_param[k], second_param[k]);
        block[i] = p.is_log ? value : std::exp(value);
      }
      store(block, n, out[0].as<std::byte>() + first * width);
    }
  });
}

void dirichlet(KernelContext&, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t size = out[0].size(), classes = in[1].shape.back();
  if (size == 0) return;
  const int64_t alphas = in[1].shape.product(0, in[1].shape.ndim() - 1), row = size / alphas;
  const Values samples(in[0]), alpha(in[1]);
  const auto store = pointwise::store_fn(pointwise::Compute::kDouble, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(out[0].dtype));
  pointwise::parallel_ranges(size, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      double total = 0, value = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const double a = alpha[i / row * classes + c], x = samples[i * classes + c];
        total += a;
        value += (a == 1 ? 0 : (a - 1) * std::log(x)) - log_gamma(a);
      }
      value += log_gamma(total);
      if (!p.is_log) value = std::exp(value);
      store(&value, 1, out[0].as<std::byte>() + i * width);
    }
  });
}

}  // namespace
}  // namespace random

void register_random_pdf_cpu(OpRegistry& ops) {
  using namespace random;  // NOLINT: this folder's own names
  constexpr DeviceType kCPU = DeviceType::kCPU;
  ops.kernel<&density<&uniform>>("_random_pdf_uniform", kCPU);
  ops.kernel<&density<&normal>>("_random_pdf_normal", kCPU);
  ops.kernel<&density<&gamma_density>>("_random_pdf_gamma", kCPU);
  ops.kernel<&density<&exponential>>("_random_pdf_exponential", kCPU);
  ops.kernel<&density<&poisson>>("_random_pdf_poisson", kCPU);
  ops.kernel<&density<&negative_binomial>>("_random_pdf_negative_binomial", kCPU);
  ops.kernel<&density<&generalized_negative_binomial>>("_random_pdf_generalized_negative_binomial",
                                                       kCPU);
  ops.kernel<&dirichlet>("_random_pdf_dirichlet", kCPU);
}

}  // namespace mxlite
