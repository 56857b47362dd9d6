// Counts the threads that flush subnormal numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "cpp/core/openmp.h"
#include "cpp/core/subnormals.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/random/fast_fill.h"

namespace mxlite {
namespace {

constexpr int kThreads = 4;
constexpr float kTiny = 1e-40f;

struct Counts {
  std::atomic<int> threads = 0, flushing = 0;
};

void count_this_thread(void* counts) {
  auto& c = *static_cast<Counts*>(counts);
  ++c.threads;
  if (FlushSubnormals::is_on()) ++c.flushing;
}

// Begins a region as oneDNN does, and expects that all its threads flush.
void check_pool() {
  Counts counts;
  const FlushSubnormals flush;
  openmp::begin_region(&count_this_thread, &counts, kThreads);
  count_this_thread(&counts);
  openmp::end_region();
  EXPECT_EQ(counts.threads, kThreads);
  EXPECT_EQ(counts.flushing, kThreads);
}

int64_t count_zeros(const std::vector<float>& values) {
  return std::ranges::count_if(values,
                               [](float v) { return std::bit_cast<uint32_t>(v) << 1 == 0; });
}

TEST(Subnormals, FlagsAreThoseOfTheKernelInEveryThread) {
  ASSERT_FALSE(FlushSubnormals::is_on());
  set_cpu_threads(kThreads);
  const int64_t n = 512;
  std::vector<float> tiny(static_cast<size_t>(n * n)), ones(tiny.size(), 1), product(tiny.size());
  // The first region, which creates the threads, keeps subnormal numbers.
  random::fill_uniform({1, 2}, kTiny, 2 * kTiny, {tiny.data(), Shape{n, n}, {}, DType::kFloat32});
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(count_zeros(tiny), 0);
    EXPECT_FALSE(FlushSubnormals::is_on());
    check_pool();
    cpu::gemm(DType::kFloat32, false, false, n, n, n, tiny.data(), n, ones.data(), n,
              product.data(), n);
    EXPECT_EQ(count_zeros(product), n * n);
    EXPECT_FALSE(FlushSubnormals::is_on());
    check_pool();
    random::fill_uniform({1, 2}, kTiny, 2 * kTiny, {tiny.data(), Shape{n, n}, {}, DType::kFloat32});
  }
}

TEST(Subnormals, ScopesNest) {
  const FlushSubnormals on;
  EXPECT_TRUE(FlushSubnormals::is_on());
  {
    const FlushSubnormals off(false);
    EXPECT_FALSE(FlushSubnormals::is_on());
    const FlushSubnormals on_again;
    EXPECT_TRUE(FlushSubnormals::is_on());
  }
  EXPECT_TRUE(FlushSubnormals::is_on());
}

}  // namespace
}  // namespace mxlite
