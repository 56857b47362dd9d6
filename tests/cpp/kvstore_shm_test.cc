// Collectives through shared memory; ranks are threads on one segment, so that the thread sanitizer
// sees what they do to each other, or forks where a rank has to die.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite {
namespace {

constexpr size_t kBuffer = size_t{64} << 10;

using Body = std::function<void(Communicator&)>;

void on_ranks(int ranks, const Body& body) {
  const auto segment = shm::SharedSegment::create_unnamed(ranks, kBuffer);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto group = shm::make_communicator(segment, r);
      body(*group);
      group->barrier();
    });
  for (auto& thread : threads) thread.join();
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Ranks, testing::Values(1, 2, 3, 4));

TEST_P(Ranks, AllReduceAddsArraysOfAnySize) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int n = group.size();
    for (const int64_t count : {1, 3, 1000, 4096, 4097, 16385, 100003, 300000}) {
      std::vector<float> in(static_cast<size_t>(count)), out(in.size());
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(i % 97 + 10 * static_cast<size_t>(group.rank()));
      group.all_reduce(in.data(), out.data(), count, DType::kFloat32, ReduceOp::kSum);
      for (size_t i = 0; i < in.size(); ++i)
        ASSERT_EQ(out[i], static_cast<float>(static_cast<int>(i % 97) * n + 10 * n * (n - 1) / 2))
            << "element " << i << " of " << count;
    }
  });
}

TEST_P(Ranks, AllReduceInPlaceGivesTheSameBitsOnAllRanks) {
  on_ranks(GetParam(), [](Communicator& group) {
    std::vector<float> values(70001);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0f / static_cast<float>(i + 3 + static_cast<size_t>(group.rank()) * 7);
    group.all_reduce(values.data(), values.data(), 70001, DType::kFloat32, ReduceOp::kSum);
    const auto n = static_cast<size_t>(group.size());
    std::vector<float> all(values.size() * n);
    group.all_gather(values.data(), all.data(),
                     std::vector<size_t>(n, values.size() * sizeof(float)));
    for (size_t r = 0; r < n; ++r)
      ASSERT_TRUE(std::equal(values.begin(), values.end(),
                             all.begin() + static_cast<int64_t>(r * values.size())));
  });
}

TEST(Shm, AllToAllNamesRanksOfTheJob) {
  on_ranks(3, [](Communicator& world) {
    const auto group = world.split(world.rank() == 0 ? -1 : 0, world.rank());
    if (!group) return;
    const size_t send[] = {0, 0}, receive[] = {8, 8};
    std::vector<std::byte> in(16), out(16);
    try {
      group->all_to_all(in.data(), send, out.data(), receive);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      const std::string wanted =
          "all_to_all: rank 1 sends 0 bytes, rank " + std::to_string(world.rank()) + " expects 8";
      EXPECT_NE(std::string(e.what()).find(wanted), std::string::npos) << e.what();
    }
  });
}

TEST_P(Ranks, ReductionsOfOtherKindsAndTypes) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int n = group.size();
    int32_t value = group.rank() + 1, out = 0;
    group.all_reduce(&value, &out, 1, DType::kInt32, ReduceOp::kMin);
    EXPECT_EQ(out, 1);
    group.all_reduce(&value, &out, 1, DType::kInt32, ReduceOp::kMax);
    EXPECT_EQ(out, n);
    group.all_reduce(&value, &out, 1, DType::kInt32, ReduceOp::kProduct);
    EXPECT_EQ(out, n == 4 ? 24 : n == 3 ? 6 : n);
    bool flag = group.rank() == 0, any = false, all = true;
    group.all_reduce(&flag, &any, 1, DType::kBool, ReduceOp::kSum);
    group.all_reduce(&flag, &all, 1, DType::kBool, ReduceOp::kMin);
    EXPECT_TRUE(any);
    EXPECT_EQ(all, n == 1);
    // 2048 + 1 is not a float16: the halves are added in float32 and rounded once.
    float16 half(group.rank() == 0 ? 2048.0f : 1.0f), sum;
    group.all_reduce(&half, &sum, 1, DType::kFloat16, ReduceOp::kSum);
    EXPECT_EQ(static_cast<float>(sum), static_cast<float>(float16(2048.0f + (n - 1))));
  });
}

TEST_P(Ranks, GatherAndScatterOfUnevenParts) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto n = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
    std::vector<int64_t> counts(n);
    for (size_t r = 0; r < n; ++r) counts[r] = static_cast<int64_t>(r * 20000);  // rank 0: nothing
    std::vector<size_t> bytes;
    for (const int64_t c : counts) bytes.push_back(static_cast<size_t>(c) * sizeof(int32_t));
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::vector<int32_t> mine(static_cast<size_t>(counts[me]), static_cast<int32_t>(me));
    std::vector<int32_t> all(static_cast<size_t>(total));
    group.all_gather(mine.data(), all.data(), bytes);
    size_t at = 0;
    for (size_t r = 0; r < n; ++r)
      for (int64_t i = 0; i < counts[r]; ++i) ASSERT_EQ(all[at++], static_cast<int32_t>(r));
    group.reduce_scatter(all.data(), mine.data(), counts, DType::kInt32, ReduceOp::kSum);
    for (const int32_t v : mine) ASSERT_EQ(v, static_cast<int32_t>(me * n));
  });
}

TEST_P(Ranks, AllToAllAndBroadcast) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto n = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
    // Rank r sends 1000 * (r + 1) elements to each.
    std::vector<size_t> send(n, 1000 * (me + 1) * sizeof(int32_t)), receive;
    for (size_t r = 0; r < n; ++r) receive.push_back(1000 * (r + 1) * sizeof(int32_t));
    std::vector<int32_t> in(n * 1000 * (me + 1)), out(500 * n * (n + 1));
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = static_cast<int32_t>(me * 100 + i / (1000 * (me + 1)));
    group.all_to_all(in.data(), send, out.data(), receive);
    size_t at = 0;
    for (size_t r = 0; r < n; ++r)
      for (size_t i = 0; i < 1000 * (r + 1); ++i)
        ASSERT_EQ(out[at++], static_cast<int32_t>(r * 100 + me));
    std::vector<double> values(50000, static_cast<double>(me));
    group.broadcast(values.data(), values.size() * sizeof(double), static_cast<int>(n) - 1);
    for (const double v : values) ASSERT_EQ(v, static_cast<double>(n - 1));
  });
}

TEST(SharedMemory, SplitMakesGroupsOrderedByKey) {
  on_ranks(4, [](Communicator& world) {
    const auto group = world.split(world.rank() % 2, -world.rank());
    ASSERT_EQ(group->size(), 2);
    EXPECT_EQ(group->rank(), world.rank() < 2 ? 1 : 0);
    int32_t value = world.rank();
    group->all_reduce(&value, &value, 1, DType::kInt32, ReduceOp::kSum);
    EXPECT_EQ(value, world.rank() % 2 ? 4 : 2);
    EXPECT_EQ(world.split(world.rank() == 0 ? 0 : -1, 0) == nullptr, world.rank() != 0);
  });
}

TEST(SharedMemory, ErrorsOfAGroupNameTheRanksOfTheJob) {
  on_ranks(4, [](Communicator& world) {
    const auto group = world.split(world.rank() % 2, -world.rank());
    std::string text;
    try {
      int32_t value = 0;
      group->all_reduce(&value, &value, world.rank() < 2 ? 1 : 0, DType::kInt32, ReduceOp::kSum);
      group->barrier();
    } catch (const Error& e) {
      text = e.what();
    }
    const int low = world.rank() % 2;
    for (const int rank : {low, low + 2})
      EXPECT_NE(text.find(str("rank ", rank, " calls ")), std::string::npos) << text;
  });
}

TEST(SharedMemory, ManyOperationsInARowKeepTheirBuffersApart) {
  on_ranks(3, [](Communicator& group) {
    for (int32_t i = 0; i < 3000; ++i) {
      int32_t value = i + group.rank(), sum = 0;
      group.all_reduce(&value, &sum, 1, DType::kInt32, ReduceOp::kSum);
      ASSERT_EQ(sum, 3 * i + 3);
    }
  });
}

TEST(SharedMemory, RanksThatCallDifferentOperationsAllGetAnError) {
  std::atomic<int> errors{0};
  const auto segment = shm::SharedSegment::create_unnamed(2, kBuffer);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      const auto group = shm::make_communicator(segment, r);
      std::vector<float> values(100);
      try {
        if (r == 0)
          group->all_reduce(values.data(), values.data(), 100, DType::kFloat32, ReduceOp::kSum);
        else
          group->all_reduce(values.data(), values.data(), 50, DType::kFloat32, ReduceOp::kSum);
        group->barrier();
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("ranks disagree"), std::string::npos) << e.what();
        ++errors;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(errors, 2);
}

TEST(SharedMemory, AFailureIsToldToAllRanks) {
  const auto segment = shm::SharedSegment::create_unnamed(3, kBuffer);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      const auto group = shm::make_communicator(segment, r);
      try {
        if (r == 1)
          group->fail_all("rank 1 has no memory left");
        else
          group->barrier();
      } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "rank 1 has no memory left");
        ++failures;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 2);
}

// A fork per rank: rank 1 dies in the middle, the others must say so.
TEST(SharedMemory, ADeadRankIsFound) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not follow forks";
#endif
  const auto segment = shm::SharedSegment::create_unnamed(3, kBuffer);
  std::vector<pid_t> children;
  for (int r = 0; r < 3; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 2;
      try {
        auto group = shm::make_communicator(segment, r);
        for (int i = 0; i < 1000000; ++i) {
          if (r == 1 && i == 100) kill(getpid(), SIGKILL);
          group->barrier();
        }
      } catch (const Error& e) {
        code = std::string(e.what()).find("rank 1 is lost") != std::string::npos ? 0 : 3;
      }
      _exit(code);
    }
    children.push_back(child);
  }
  for (int r = 0; r < 3; ++r) {
    int status = 0;
    waitpid(children[static_cast<size_t>(r)], &status, 0);
    if (r == 1)
      EXPECT_TRUE(WIFSIGNALED(status));
    else
      EXPECT_EQ(WEXITSTATUS(status), 0) << "rank " << r;
  }
}

}  // namespace
}  // namespace mxlite
