// Compares the orders of pack_pairs.h with index arithmetic, and tests the products that use them.
#include "cpp/ops/cpu/pack_pairs.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/packed_product.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

std::vector<uint16_t> numbered(int64_t count) {
  std::vector<uint16_t> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<uint16_t>(i + 1);
  return v;
}

int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

TEST(PackPairs, BlocksOfPairsWithZerosBehindTheMatrix) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512";
  for (const int64_t width : {16, 48, 64})
    for (const int64_t rows : {1, 2, 31, 32, 33, 70})
      for (const int64_t columns : {1, 15, 16, 17, 64, 130})
        for (const bool transposed : {false, true}) {
          const int64_t column_stride = up(rows, 32) * width;
          const PairPanels panels{rows, columns, width, 32 * width, column_stride};
          const std::vector<uint16_t> from = numbered(rows * columns);
          std::vector<uint16_t> to(static_cast<size_t>(up(columns, width) * up(rows, 32) + 1), 7);
          pack_pairs(from.data(), transposed, panels, to.data());
          for (int64_t n = 0; n < up(columns, width); ++n)
            for (int64_t k = 0; k < up(rows, 32); ++k) {
              const int64_t at = transposed ? n * rows + k : k * columns + n;
              const uint16_t want =
                  n < columns && k < rows ? from[static_cast<size_t>(at)] : uint16_t{0};
              const int64_t place = n / width * column_stride + k / 32 * 32 * width +
                                    k % 32 / 2 * 2 * width + n % width * 2 + k % 2;
              ASSERT_EQ(to[static_cast<size_t>(place)], want)
                  << rows << " x " << columns << " width " << width << " at " << k << ", " << n;
            }
          EXPECT_EQ(to.back(), 7) << "written behind the end";
        }
}

TEST(PackPairs, Transpose) {
  if (!has_avx512()) GTEST_SKIP() << "needs AVX-512";
  for (const int64_t rows : {1, 2, 31, 32, 33, 70})
    for (const int64_t columns : {1, 15, 16, 17, 130}) {
      const std::vector<uint16_t> from = numbered(rows * columns);
      std::vector<uint16_t> to(from.size() + 1, 7);
      transpose_halves(from.data(), rows, columns, to.data());
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          ASSERT_EQ(to[static_cast<size_t>(c * rows + r)],
                    from[static_cast<size_t>(r * columns + c)]);
      EXPECT_EQ(to.back(), 7) << "written behind the end";
    }
}

// The values are small integers, so that sums are exact in float and results are rounded once.
TEST(PackedProduct, EqualsSumsOfProducts) {
  std::mt19937 rng(3);
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{300, 70, 90}, {513, 130, 64}, {257, 64, 129}})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true}) {
        const auto fill = [&](int64_t count) {
          std::vector<bfloat16> v(static_cast<size_t>(count));
          for (bfloat16& x : v) x = bfloat16(static_cast<float>(static_cast<int>(rng() % 9) - 4));
          return v;
        };
        const std::vector<bfloat16> a = fill(m * k), b = fill(k * n);
        std::vector<bfloat16> c(static_cast<size_t>(m * n));
        ASSERT_TRUE(is_worth_packing(m, n, k));
        gemm(DType::kBFloat16, trans_a, trans_b, m, n, k, a.data(), trans_a ? m : k, b.data(),
             trans_b ? k : n, c.data(), n);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t l = 0; l < k; ++l)
              sum += static_cast<float>(a[static_cast<size_t>(trans_a ? l * m + i : i * k + l)]) *
                     static_cast<float>(b[static_cast<size_t>(trans_b ? j * k + l : l * n + j)]);
            ASSERT_EQ(c[static_cast<size_t>(i * n + j)].bits, bfloat16(sum).bits)
                << m << " " << n << " " << k << " at " << i << ", " << j;
          }
      }
}

}  // namespace
}  // namespace mxlite::cpu
