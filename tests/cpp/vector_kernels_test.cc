// Compares the loops of both instruction sets with double, for every length around those of the
// vectors.
#include "cpp/ops/cpu/nn/vector_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cpp/core/random.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/nn/gelu_forms.h"

namespace mxlite::cpu {
namespace {

template <class T>
constexpr double kStep = std::is_same_v<T, float>     ? 0x1p-23
                         : std::is_same_v<T, float16> ? 0x1p-11
                                                      : 0x1p-8;

template <class T>
std::vector<T> numbers(int64_t n, double seed, double range) {
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i)
    v.push_back(T(static_cast<float>(range * std::sin(static_cast<double>(i) * 1.7 + seed))));
  return v;
}

template <class T>
double as_double(T x) {
  return static_cast<double>(static_cast<float>(x));
}

// Returns both tables for T, without the second one if the processor lacks its instructions.
template <class T>
std::vector<const VectorKernels<T>*> tables() {
  std::vector<const VectorKernels<T>*> found{&avx2::vector_kernels<T>()};
  if (has_avx512()) found.push_back(&avx512::vector_kernels<T>());
  return found;
}

template <class T>
class Vectors : public testing::Test {};
using Types = testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(Vectors, Types);

template <class T>
void expect_near(T got, double want, double scale, const char* what, int64_t n, int64_t i) {
  EXPECT_NEAR(as_double(got), want, 8 * kStep<T> * std::max(std::abs(want), scale))
      << what << " of " << n << " at " << i;
}

TYPED_TEST(Vectors, GeluAndItsGradients) {
  using T = TypeParam;
  for (const VectorKernels<T>* table : tables<T>())
    for (int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 70}) {
      const std::vector<T> x = numbers<T>(n, 1, 6), grad = numbers<T>(n, 2, 1);
      std::vector<T> y(x.size() + 1, T(77)), slope = y;
      const auto check = [&](auto form, const char* what, auto value, auto backward) {
        using Form = decltype(form);
        value(x.data(), y.data(), n);
        backward(grad.data(), x.data(), slope.data(), n);
        for (size_t i = 0; i < x.size(); ++i) {
          const double v = as_double(x[i]), g = as_double(grad[i]);
          expect_near(y[i], Form::value(v), 1, what, n, static_cast<int64_t>(i));
          expect_near(slope[i], g * Form::slope(v), 1, what, n, static_cast<int64_t>(i));
        }
        EXPECT_EQ(as_double(y.back()), 77) << "written behind the end";
        EXPECT_EQ(as_double(slope.back()), 77) << "written behind the end";
      };
      check(ErfGelu{}, "gelu", table->gelu, table->gelu_backward);
      check(TanhGelu{}, "gelu_tanh", table->gelu_tanh, table->gelu_tanh_backward);
    }
}

// Compares the derivatives of the forms with differences.
template <class Form>
void expect_slope() {
  for (double x = -6; x < 6; x += 0.37) {
    const double step = 1e-5;
    const double slope = (Form::value(x + step) - Form::value(x - step)) / (2 * step);
    EXPECT_NEAR(Form::slope(x), slope, 1e-8) << x;
  }
}
TEST(GeluForms, SlopesAreDerivatives) {
  expect_slope<ErfGelu>();
  expect_slope<TanhGelu>();
  EXPECT_EQ(TanhGelu::slope(1e30), 1);
  EXPECT_EQ(TanhGelu::slope(-1e30f), 0);
  EXPECT_TRUE(std::isnan(TanhGelu::slope(NAN)));
}

TYPED_TEST(Vectors, MasksScaleAndDrop) {
  using T = TypeParam;
  for (const VectorKernels<T>* table : tables<T>())
    for (int64_t n : {1, 15, 16, 70}) {
      std::vector<T> x = numbers<T>(n, 3, 2);
      std::vector<uint8_t> mask;
      for (int64_t i = 0; i < n; ++i) mask.push_back(i % 3 == 1);
      x[0] = T(NAN);  // dropped
      std::vector<T> y(x.size());
      table->apply_mask(x.data(), mask.data(), 1.25f, y.data(), n);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(as_double(y[i]), mask[i] ? as_double(T(static_cast<float>(x[i]) * 1.25f)) : 0.0)
            << i;
      const std::vector<T> added = numbers<T>(n, 5, 3), kept = y;
      table->apply_mask_and_add(x.data(), mask.data(), 1.25f, added.data(), y.data(), n);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(as_double(y[i]),
                  as_double(T(static_cast<float>(kept[i]) + static_cast<float>(added[i]))))
            << i;
    }
}

TEST(DrawMask, IsThatOfTheRandomCounters) {
  const uint64_t seed = 0x123456789abcdef, first = 0xffffffffull - 3;  // words carry over
  const uint32_t threshold = 1 << 22;
  const auto check = [&](auto draw, const char* what) {
    for (int64_t counters : {1, 63, 64, 65, 200}) {
      std::vector<uint8_t> mask(static_cast<size_t>(4 * counters + 1), 77);
      draw(seed, first, counters, threshold, mask.data());
      for (int64_t i = 0; i < counters; ++i) {
        const auto words = philox(seed, first + static_cast<uint64_t>(i));
        for (size_t k = 0; k < 4; ++k)
          ASSERT_EQ(mask[static_cast<size_t>(4 * i) + k], words[k] >> 8 >= threshold)
              << what << " counter " << i << " word " << k;
      }
      EXPECT_EQ(mask.back(), 77) << "written behind the end";
    }
  };
  check(avx2::draw_mask, "AVX2");
  if (has_avx512()) check(avx512::draw_mask, "AVX-512");
}

TYPED_TEST(Vectors, LayerNormAndItsGradients) {
  using T = TypeParam;
  constexpr double kEps = 1e-3;
  for (const VectorKernels<T>* table : tables<T>())
    for (int64_t n : {1, 5, 16, 37, 130, 4200})
      for (int64_t rows : {1, 2, 6}) {
        const auto at = [&](int64_t r, int64_t i) { return static_cast<size_t>(r * n + i); };
        const std::vector<T> x = numbers<T>(rows * n, 1, 2), gamma = numbers<T>(n, 2, 1),
                             beta = numbers<T>(n, 3, 1), grad = numbers<T>(rows * n, 4, 1);
        std::vector<T> y(x.size()), data_grad(x.size()), mean(static_cast<size_t>(rows)),
            std(mean.size());
        std::vector<float> gamma_grad(static_cast<size_t>(n)), beta_grad(gamma_grad.size());
        table->normalize(
            {x.data(), gamma.data(), beta.data(), y.data(), mean.data(), std.data(), n, kEps}, 0,
            rows);
        table->normalize_backward({grad.data(), x.data(), gamma.data(), data_grad.data(), n, kEps},
                                  0, rows, gamma_grad.data(), beta_grad.data());
        std::vector<double> to_gamma(gamma_grad.size()), to_beta(gamma_grad.size());
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0, squares = 0, offset = 0, slope = 0;
          for (int64_t i = 0; i < n; ++i) sum += as_double(x[at(r, i)]);
          const double m = sum / static_cast<double>(n);
          for (int64_t i = 0; i < n; ++i) squares += std::pow(as_double(x[at(r, i)]) - m, 2);
          const double deviation = std::sqrt(squares / static_cast<double>(n) + kEps);
          const auto x_hat = [&](int64_t i) { return (as_double(x[at(r, i)]) - m) / deviation; };
          const auto g = [&](int64_t i) {
            return as_double(grad[at(r, i)]) * as_double(gamma[static_cast<size_t>(i)]);
          };
          for (int64_t i = 0; i < n; ++i) {
            offset += g(i) / static_cast<double>(n);
            slope += g(i) * x_hat(i) / static_cast<double>(n);
            to_gamma[static_cast<size_t>(i)] += as_double(grad[at(r, i)]) * x_hat(i);
            to_beta[static_cast<size_t>(i)] += as_double(grad[at(r, i)]);
          }
          const auto k = static_cast<size_t>(r);
          expect_near(mean[k], m, 1, "mean", n, r);
          expect_near(std[k], deviation, 1, "std", n, r);
          for (int64_t i = 0; i < n; ++i) {
            const auto j = static_cast<size_t>(i);
            expect_near(y[at(r, i)], x_hat(i) * as_double(gamma[j]) + as_double(beta[j]), 2,
                        "output", n, i);
            expect_near(data_grad[at(r, i)], (g(i) - offset - x_hat(i) * slope) / deviation,
                        2 / deviation, "gradient", n, i);
          }
        }
        for (size_t i = 0; i < to_gamma.size(); ++i) {
          EXPECT_NEAR(static_cast<double>(gamma_grad[i]), to_gamma[i], 1e-5) << n << " " << i;
          EXPECT_NEAR(static_cast<double>(beta_grad[i]), to_beta[i], 1e-5) << n << " " << i;
        }
      }
}

}  // namespace
}  // namespace mxlite::cpu
