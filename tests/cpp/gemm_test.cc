#include "cpp/ops/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace mxlite::cpu {
namespace {

struct Case {
  int64_t batch, m, n, k;
  bool trans_a, trans_b;
  double alpha, beta;
};

// Returns products of odd sizes on both sides of kSmallGemm and of every tile and panel border.
std::vector<Case> cases() {
  std::vector<Case> all;
  const int64_t sizes[][3] = {{1, 1, 1},      {2, 3, 5},    {5, 17, 3},   {1, 300, 9}, {37, 1, 70},
                              {61, 270, 140}, {1, 301, 90}, {301, 1, 90}, {4, 4, 0},   {0, 3, 2}};
  for (const auto& s : sizes)
    for (int64_t batch : {1, 3})
      for (bool ta : {false, true})
        for (bool tb : {false, true})
          for (double beta : {0.0, 1.0, 2.0})
            all.push_back({batch, s[0], s[1], s[2], ta, tb, beta == 2 ? 3.0 : 1.0, beta});
  return all;
}

template <class T>
void check(double tolerance) {
  std::mt19937 rng(7);
  for (const Case& t : cases()) {
    // Leading dimensions and strides are one more than needed, so that an error in them shows.
    const int64_t lda = (t.trans_a ? t.m : t.k) + 1, ldb = (t.trans_b ? t.k : t.n) + 1;
    const int64_t ldc = t.n + 1;
    const int64_t stride_a = lda * (t.trans_a ? t.k : t.m) + 1;
    const int64_t stride_b = ldb * (t.trans_b ? t.n : t.k) + 1, stride_c = ldc * t.m + 1;
    const auto fill = [&](int64_t n) {
      std::vector<T> v(static_cast<size_t>(n) + 1);
      for (T& x : v) x = static_cast<T>(static_cast<int>(rng() % 7));
      return v;
    };
    const std::vector<T> a = fill(t.batch * stride_a), b = fill(t.batch * stride_b);
    std::vector<T> c = fill(t.batch * stride_c);
    const std::vector<T> before = c;
    gemm_batch(DTypeOf<T>::value, t.trans_a, t.trans_b, t.batch, t.m, t.n, t.k, a.data(), lda,
               stride_a, b.data(), ldb, stride_b, c.data(), ldc, stride_c, t.alpha, t.beta);
    for (int64_t g = 0; g < t.batch; ++g)
      for (int64_t i = 0; i < t.m; ++i)
        for (int64_t j = 0; j <= t.n; ++j) {
          const size_t at = static_cast<size_t>(g * stride_c + i * ldc + j);
          double expected = static_cast<double>(before[at]);
          if (j < t.n) {
            double sum = 0;
            for (int64_t l = 0; l < t.k; ++l)
              sum +=
                  static_cast<double>(a[g * stride_a + (t.trans_a ? l * lda + i : i * lda + l)]) *
                  static_cast<double>(b[g * stride_b + (t.trans_b ? j * ldb + l : l * ldb + j)]);
            expected = t.alpha * sum + t.beta * expected;
          }
          if (std::is_integral_v<T>)
            expected = static_cast<double>(static_cast<T>(static_cast<int64_t>(expected)));
          ASSERT_NEAR(static_cast<double>(c[at]), expected, tolerance * std::abs(expected))
              << t.batch << " x " << t.m << " " << t.n << " " << t.k << " " << t.trans_a
              << t.trans_b << " beta " << t.beta << " at " << i << ", " << j;
        }
  }
}

TEST(Gemm, Float32MatchesTheDefinition) { check<float>(1e-5); }

// Rows of B that lie multiples of 4 KiB apart take a way of their own on processors with AVX2 only.
// Small whole numbers: the sums are exact.
TEST(Gemm, RowsThatLiePagesApart) {
  constexpr int64_t kLeading = 1024;
  std::mt19937 rng(9);
  const auto fill = [&](int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = static_cast<float>(static_cast<int>(rng() % 9) - 4);
    return v;
  };
  for (int64_t m : {95, 96, 131, 256, 257})
    for (int64_t n : {int64_t{1000}, kLeading})
      for (int64_t k : {3, 1100, 2050})
        for (bool trans_a : {false, true})
          for (double beta : {0.0, 1.0, -2.0}) {
            const std::vector<float> a = fill(m * k), b = fill(k * kLeading);
            std::vector<float> c = fill(m * kLeading);
            const std::vector<float> before = c;
            const int64_t lda = trans_a ? m : k;
            gemm(DType::kFloat32, trans_a, false, m, n, k, a.data(), lda, b.data(), kLeading,
                 c.data(), kLeading, 2.0, beta);
            for (int64_t i = 0; i < m; i += 13)
              for (int64_t j = 0; j < kLeading; j += j < n - 8 ? 37 : 1) {
                const auto at = static_cast<size_t>(i * kLeading + j);
                double sum = 0;
                for (int64_t l = 0; l < k && j < n; ++l)
                  sum += static_cast<double>(a[trans_a ? l * lda + i : i * lda + l]) *
                         static_cast<double>(b[l * kLeading + j]);
                const double expected = j < n ? 2 * sum + beta * before[at] : before[at];
                ASSERT_EQ(c[at], expected) << m << " " << n << " " << k << " " << trans_a
                                           << " beta " << beta << " at " << i << ", " << j;
              }
          }
}

TEST(Gemm, Float64MatchesTheDefinition) { check<double>(1e-12); }
TEST(Gemm, BFloat16RoundsOnce) { check<bfloat16>(0.004); }
TEST(Gemm, Float16RoundsOnce) { check<float16>(0.0005); }
TEST(Gemm, Int8WrapsAround) { check<int8_t>(0); }
TEST(Gemm, UInt16WrapsAround) { check<uint16_t>(0); }
TEST(Gemm, Int32) { check<int32_t>(0); }
TEST(Gemm, Int64) { check<int64_t>(0); }
TEST(Gemm, BoolIsRefused) {
  bool x = true;
  EXPECT_THROW(gemm(DType::kBool, false, false, 1, 1, 1, &x, 1, &x, 1, &x, 1), Error);
}

}  // namespace
}  // namespace mxlite::cpu
