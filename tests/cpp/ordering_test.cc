#include "cpp/ops/cpu/ordering.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace mxlite::cpu {
namespace {

template <class T>
class OrderingTest : public testing::Test {};
using Types = testing::Types<float, double, float16, int8_t, uint8_t, int64_t>;
TYPED_TEST_SUITE(OrderingTest, Types);

// Returns few distinct values, so that most of them occur several times.
template <class T>
std::vector<T> random_values(int64_t count, std::mt19937& random) {
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values)
    value = static_cast<T>(static_cast<ComputeType<T>>(static_cast<int>(random() % 100)));
  return values;
}

template <class T>
std::vector<EntryOf<T>> entries_of(const std::vector<T>& values) {
  std::vector<EntryOf<T>> entries;
  for (const T& value : values)
    entries.push_back(EntryOf<T>::make(order_key(value), static_cast<int64_t>(entries.size())));
  return entries;
}

TYPED_TEST(OrderingTest, SortsTheFirstOfAnyNumberAndKeepsTheOrderOfEquals) {
  using Entry = EntryOf<TypeParam>;
  std::mt19937 random(7);
  for (const int64_t count : {1, 2, 31, 96, 97, 1000, 4095, 4096, 9000}) {
    const auto values = random_values<TypeParam>(count, random);
    auto expected = entries_of(values);
    std::sort(expected.begin(), expected.end());
    for (const int64_t k : {int64_t{1}, (count + 31) / 32, (count + 1) / 2, count}) {
      auto entries = entries_of(values);
      std::vector<Entry> room(entries.size());
      const Entry* const sorted = sort_first(entries.data(), room.data(), count, k);
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(sorted[i].index());
        ASSERT_EQ(sorted[i].index(), expected[static_cast<size_t>(i)].index()) << count << " " << k;
        ASSERT_EQ(value_of_key<TypeParam>(static_cast<KeyOf<TypeParam>>(sorted[i].key())),
                  values[at]);
      }
    }
  }
}

TYPED_TEST(OrderingTest, SelectsIntoAnEighthOfTheRoom) {
  using Entry = EntryOf<TypeParam>;
  std::mt19937 random(8);
  for (const int64_t k : {1, 24, 25, 60}) {
    const int64_t count = 32 * k + 97;
    const auto values = random_values<TypeParam>(count, random);
    auto expected = entries_of(values);
    std::sort(expected.begin(), expected.end());
    std::vector<Entry> best(static_cast<size_t>(count / 8));
    select_first(
        [&](int64_t i) { return Entry::make(order_key(values[static_cast<size_t>(i)]), i); }, count,
        k, best.data());
    for (size_t i = 0; i < static_cast<size_t>(k); ++i)
      ASSERT_EQ(best[i].index(), expected[i].index()) << k;
  }
}

TEST(OrderKeyTest, OrdersInfinitiesZerosAndNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_LT(order_key(-kInf), order_key(-1.0f));
  EXPECT_LT(order_key(-1.0f), order_key(-0.0f));
  EXPECT_EQ(order_key(-0.0f), order_key(0.0f));
  EXPECT_LT(order_key(1.0f), order_key(kInf));
  EXPECT_LT(order_key(kInf), order_key(nan));
  EXPECT_EQ(order_key(-nan), order_key(nan));
  EXPECT_GT(falling_key(nan), falling_key(-kInf));
  EXPECT_LT(falling_key(2.0f), falling_key(1.0f));
}

}  // namespace
}  // namespace mxlite::cpu
