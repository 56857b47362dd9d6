// Loops that are divided among threads, and the regions beneath them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cpp/core/openmp.h"
#include "cpp/core/parallel.h"
#include "cpp/core/threads.h"

namespace mxlite {
namespace {

constexpr int kThreads = 4;

// Calls fn() in a region of kThreads shares.
template <class Fn>
void run_region(Fn fn) {
  openmp::run_region([](void* f) { (*static_cast<Fn*>(f))(); }, &fn, kThreads);
}

class Parallel : public testing::Test {
 protected:
  void SetUp() override { set_cpu_threads(kThreads); }
};

TEST_F(Parallel, RangesCoverEachItemOnce) {
  struct {
    int64_t count, grain, work;
  } const cases[] = {{0, 1, 1},    {1, 1, 1 << 20},    {7, 1, 1 << 20},
                     {100, 64, 1}, {100'003, 64, 100}, {1'000'003, 512, 8}};
  for (const auto& c : cases) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(c.count));
    share_range(c.count, c.grain, c.work, [&](int64_t begin, int64_t end, int thread) {
      EXPECT_LT(thread, kThreads);
      EXPECT_EQ(begin % c.grain, 0);
      for (int64_t i = begin; i < end; ++i) ++calls[static_cast<size_t>(i)];
    });
    EXPECT_TRUE(std::ranges::all_of(calls, [](const auto& n) { return n == 1; }));
  }
}

TEST_F(Parallel, OthersFinishThePartOfAThreadThatStands) {
  constexpr int64_t kItems = 200;
  std::atomic<int64_t> done = 0;
  std::atomic<bool> stands = false;
  share_range(kItems, 1, 1 << 20, [&](int64_t begin, int64_t end, int thread) {
    if (thread != 0 && !stands.exchange(true)) {
      const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (done < kItems - (end - begin) && std::chrono::steady_clock::now() < limit)
        std::this_thread::yield();
      EXPECT_EQ(done, kItems - (end - begin));
    }
    done += end - begin;
  });
  EXPECT_EQ(done, kItems);
}

TEST_F(Parallel, WorkDecidesTheNumberOfThreads) {
  EXPECT_EQ(threads_for(0), 1);
  EXPECT_EQ(threads_for(49e3), 1);
  EXPECT_EQ(threads_for(51e3), 2);
  EXPECT_EQ(threads_for(1e9), kThreads);
  EXPECT_EQ(threads_for(1e9, 3), 3);
  EXPECT_EQ(threads_for(1e9, 0), 1);
}

TEST_F(Parallel, TheCallerGetsTheExceptionOfAShare) {
  for (const int64_t wrong : {int64_t{0}, int64_t{kThreads - 1}}) {
    std::atomic<int> others = 0;
    EXPECT_THROW(run_shares(kThreads,
                            [&](int64_t share) {
                              if (share == wrong) throw std::runtime_error("wrong");
                              ++others;
                            }),
                 std::runtime_error);
    EXPECT_EQ(others, kThreads - 1);
    EXPECT_FALSE(openmp::in_parallel());
  }
}

TEST_F(Parallel, SharesMayWaitForEachOther) {
  std::vector<int> rounds(kThreads);
  std::atomic<int> wrong = 0;
  run_region([&] {
    ASSERT_EQ(openmp::get_num_threads(), kThreads);
    const auto me = static_cast<size_t>(openmp::get_thread_num());
    for (int round = 1; round <= 100; ++round) {
      rounds[me] = round;
      openmp::wait_at_barrier();
      if (!std::ranges::all_of(rounds, [=](int r) { return r == round; })) ++wrong;
      openmp::wait_at_barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(Parallel, RegionsWithinARegionHaveOneShare) {
  std::atomic<int> inner = 0;
  run_region([&] {
    const int me = openmp::get_thread_num();
    run_region([&] {
      EXPECT_EQ(openmp::get_num_threads(), 1);
      EXPECT_EQ(openmp::get_thread_num(), 0);
      EXPECT_TRUE(openmp::in_parallel());
      ++inner;
    });
    EXPECT_EQ(openmp::get_thread_num(), me);
    EXPECT_EQ(openmp::get_num_threads(), kThreads);
  });
  EXPECT_EQ(inner, kThreads);
  EXPECT_FALSE(openmp::in_parallel());
}

TEST_F(Parallel, StaticLoopsCoverEachIterationOnce) {
  for (const long chunk : {0L, 3L})
    for (const long step : {1L, 2L, -3L}) {
      constexpr long kIterations = 101;
      std::vector<std::atomic<int>> calls(kIterations);
      run_region([&] {
        long first = 0, last = 0;
        bool more =
            openmp::start_static_loop(5, 5 + kIterations * step, step, chunk, &first, &last);
        for (; more; more = openmp::next_static_block(&first, &last))
          for (long i = first; i != last; i += step) ++calls[static_cast<size_t>((i - 5) / step)];
      });
      EXPECT_TRUE(std::ranges::all_of(calls, [](const auto& n) { return n == 1; }));
    }
}

#ifndef __SANITIZE_THREAD__  // the sanitizer allows no new threads in a child
void count_share(void* shares) { ++*static_cast<std::atomic<int>*>(shares); }

TEST_F(Parallel, AForkedChildHasThreadsOfItsOwn) {
  std::atomic<int> shares = 0;
  run_region([&] { ++shares; });
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> own = 0;
    openmp::begin_region(&count_share, &own, kThreads);
    count_share(&own);
    openmp::end_region();
    _exit(own == kThreads ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  run_region([&] { ++shares; });
  EXPECT_EQ(shares, 2 * kThreads);
}
#endif

}  // namespace
}  // namespace mxlite
