// Tests the index arithmetic of CUDA kernels on the host, where it is the same.
#include <gtest/gtest.h>

#include <vector>

#include "cpp/ops/cuda/walk.h"

namespace mxlite::cuda {
namespace {

TEST(DivisorTest, EqualsDivision) {
  std::vector<int64_t> divisors, numbers;
  for (int64_t d = 1; d <= 300; ++d) divisors.push_back(d);
  for (const int64_t d : {641, 65535, 65536, 65537, 1 << 20, 715827883, 2147483647})
    divisors.push_back(d);
  for (int64_t n = 0; n < 1000; ++n) numbers.push_back(n);
  for (const int64_t n : {65535, 65536, 1 << 30, 2147483645, 2147483646, 2147483647})
    numbers.push_back(n);
  for (const int64_t d : divisors) {
    const Divisor by(d);
    for (const int64_t n : numbers) {
      ASSERT_EQ(by.quotient(static_cast<uint32_t>(n)), n / d) << n << " / " << d;
      const int64_t near = n / d * d;  // multiples and their neighbours are the hard cases
      ASSERT_EQ(by.quotient(static_cast<uint32_t>(near)), near / d) << near << " / " << d;
      if (near > 0) {
        ASSERT_EQ(by.quotient(static_cast<uint32_t>(near - 1)), (near - 1) / d) << d;
      }
    }
  }
}

// Compares offsets with their definition, the product of index vector and strides.
template <int K>
std::vector<int64_t> expected(const Shape& shape, const Strides (&strides)[K], int64_t i) {
  std::vector<int64_t> at(K, 0);
  for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
    for (int k = 0; k < K; ++k) at[static_cast<size_t>(k)] += i % shape[axis] * strides[k][axis];
    i /= shape[axis];
  }
  return at;
}

void check(const Shape& shape, const Strides& first, const Strides& second, int joined_ndim) {
  Walk<2> walk;
  for (int i = 0; i < shape.ndim(); ++i) walk.add(shape[i], {first[i], second[i]});
  walk.finish();
  EXPECT_EQ(walk.total(), shape.size());
  EXPECT_EQ(walk.ndim(), joined_ndim) << shape;
  for (int64_t i = 0; i < shape.size(); ++i) {
    int64_t at[2];
    walk.offsets(i, at);
    const auto right = expected<2>(shape, {first, second}, i);
    ASSERT_EQ(at[0], right[0]) << shape << " element " << i;
    ASSERT_EQ(at[1], right[1]) << shape << " element " << i;
  }
}

TEST(WalkTest, JoinsWhatBothArraysAllow) {
  check({2, 3, 4}, {12, 4, 1}, {12, 4, 1}, 1);
  check({2, 3, 4}, {12, 4, 1}, {0, 0, 0}, 1);      // one element everywhere
  check({2, 3, 4}, {12, 4, 1}, {1, 2, 6}, 3);      // transposed
  check({2, 3, 4}, {12, 4, 1}, {4, 0, 1}, 3);      // broadcast in the middle
  check({2, 1, 4}, {4, 4, 1}, {4, 77, 1}, 1);      // axes of length 1 do not count
  check({2, 3, 4}, {12, 4, 1}, {-12, -4, -1}, 1);  // reversed
  check({}, {}, {}, 0);
  check({2, 0, 4}, {0, 4, 1}, {1, 2, 0}, 3);  // nothing to walk
}

TEST(WalkTest, LargeShapesUseWideDivisions) {
  Walk<1> walk;
  walk.add(int64_t{1} << 20, {int64_t{1} << 21});
  walk.add(int64_t{1} << 20, {2});
  walk.finish();
  int64_t at[1];
  const int64_t i = (int64_t{1} << 39) + 12345;
  walk.offsets(i, at);
  EXPECT_EQ(at[0], 2 * i);
}

TEST(WalkTest, ContiguousMeansAllNeighboursInOrder) {
  Walk<2> walk;
  walk.add(3, {4, 4});
  walk.add(4, {1, 1});
  EXPECT_TRUE(walk.contiguous());
  Walk<2> gaps;
  gaps.add(3, {8, 4});
  gaps.add(4, {1, 1});
  EXPECT_FALSE(gaps.contiguous());
  EXPECT_TRUE(Walk<2>().contiguous());
}

TEST(WalkTest, BroadcastStridesAreNumPys) {
  EXPECT_EQ(broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}), (Strides{0, 1, 0}));
  EXPECT_EQ(broadcast_strides({}, {}, {2, 3}), (Strides{0, 0}));
}

}  // namespace
}  // namespace mxlite::cuda
