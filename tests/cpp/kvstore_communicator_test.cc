// Tests collectives of the CPU through shared memory and over TCP. Ranks are threads, so that the
// thread sanitizer finds races between them.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "tests/cpp/errors.h"
#include "tests/cpp/shm_ranks.h"
#include "tests/cpp/tcp_ranks.h"

namespace mxlite {
namespace {

void on_ranks(int ranks, bool over_tcp, const RankBody& body) {
  if (over_tcp) return on_tcp(ranks, body);
  const auto segment = shm::SharedSegment::create_unnamed(ranks, kSharedBuffer);
  run_threads(ranks, [&](int rank) { body(*shm::make_communicator(segment, rank)); });
}

std::string transport_name(bool over_tcp) { return over_tcp ? "Tcp" : "SharedMemory"; }

class Ranks : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static bool over_tcp() { return std::get<1>(GetParam()); }
  static void on_ranks(const RankBody& body) {
    mxlite::on_ranks(std::get<0>(GetParam()), over_tcp(), body);
  }
};
INSTANTIATE_TEST_SUITE_P(Counts, Ranks,
                         testing::Combine(testing::Values(1, 2, 3, 4), testing::Bool()),
                         [](const auto& info) {
                           return transport_name(std::get<1>(info.param)) +
                                  std::to_string(std::get<0>(info.param));
                         });

TEST_P(Ranks, AllReduceAddsArraysOfAnySize) {
  on_ranks([](Communicator& group) {
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
    group.barrier();
  });
}

TEST_P(Ranks, ReductionsOfOtherKindsAndTypes) {
  on_ranks([](Communicator& group) {
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
    // 2049 is not a float16. The numbers are added in float32 and rounded once.
    float16 half(group.rank() == 0 ? 2048.0f : 1.0f), sum;
    group.all_reduce(&half, &sum, 1, DType::kFloat16, ReduceOp::kSum);
    EXPECT_EQ(static_cast<float>(sum), static_cast<float>(float16(2048.0f + (n - 1))));
    group.barrier();
  });
}

TEST_P(Ranks, GatherAndScatterOfUnevenParts) {
  const size_t step = over_tcp() ? 1500000 : 20000;
  on_ranks([&](Communicator& group) {
    const auto n = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
    std::vector<int64_t> counts(n);
    for (size_t r = 0; r < n; ++r) counts[r] = static_cast<int64_t>(r * step);  // rank 0: none
    std::vector<size_t> bytes;
    for (const int64_t c : counts) bytes.push_back(static_cast<size_t>(c) * sizeof(int32_t));
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::vector<int32_t> mine(static_cast<size_t>(counts[me]), static_cast<int32_t>(me));
    std::vector<int32_t> all(static_cast<size_t>(total));
    group.all_gather(mine.data(), all.data(), bytes);
    size_t at = 0;
    for (size_t r = 0; r < n; ++r)
      for (int64_t i = 0; i < counts[r]; ++i) ASSERT_EQ(all[at++], static_cast<int32_t>(r));
    for (size_t i = 0; i < all.size(); ++i) all[i] += static_cast<int32_t>(i % 7);
    group.reduce_scatter(all.data(), mine.data(), counts, DType::kInt32, ReduceOp::kSum);
    const size_t begin = static_cast<size_t>(
        std::accumulate(counts.begin(), counts.begin() + group.rank(), int64_t{0}));
    for (size_t i = 0; i < mine.size(); ++i)
      ASSERT_EQ(mine[i], static_cast<int32_t>(n * (me + (begin + i) % 7)));
    group.barrier();
  });
}

TEST_P(Ranks, AllToAllBroadcastAndBarrier) {
  on_ranks([](Communicator& group) {
    const auto n = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
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
    for (const size_t count : {size_t{1}, size_t{100}, size_t{50001}})
      for (int root = 0; root < group.size(); ++root) {
        std::vector<double> values(count);
        for (size_t i = 0; i < count; ++i)
          values[i] = group.rank() == root ? static_cast<double>(i) + 10 * root : -1;
        group.broadcast(values.data(), values.size() * sizeof(double), root);
        for (size_t i = 0; i < count; ++i) ASSERT_EQ(values[i], static_cast<double>(i) + 10 * root);
      }
    group.barrier();
  });
}

class Transports : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(All, Transports, testing::Bool(),
                         [](const auto& info) { return transport_name(info.param); });

TEST_P(Transports, SplitMakesGroupsOrderedByKey) {
  on_ranks(4, GetParam(), [](Communicator& world) {
    for (int round = 0; round < 3; ++round) {
      const auto group = world.split(world.rank() % 2, -world.rank());
      ASSERT_EQ(group->size(), 2);
      EXPECT_EQ(group->rank(), world.rank() < 2 ? 1 : 0);
      int32_t value = world.rank();
      group->all_reduce(&value, &value, 1, DType::kInt32, ReduceOp::kSum);
      EXPECT_EQ(value, world.rank() % 2 ? 4 : 2);
    }
    EXPECT_EQ(world.split(world.rank() == 0 ? 0 : -1, 0) == nullptr, world.rank() != 0);
    world.barrier();
  });
}

TEST_P(Transports, RanksThatDisagreeAreNamedOnAllOfThem) {
  on_ranks(3, GetParam(), [](Communicator& group) {
    std::vector<float> values(100);
    const std::string text = comm_error_of([&] {
      group.all_reduce(values.data(), values.data(), group.rank() == 1 ? 99 : 100, DType::kFloat32,
                       ReduceOp::kSum);
      group.barrier();
    });
    EXPECT_HAS(text, "all_reduce (sum, 396 bytes of float32)");
    EXPECT_HAS(text, "all_reduce (sum, 400 bytes of float32)");
    EXPECT_HAS(text, "rank 1");
    EXPECT_EQ(comm_error_of([&] { group.barrier(); }), text);
  });
}

TEST_P(Transports, AFailureOfOneRankReachesRanksThatWait) {
  on_ranks(3, GetParam(), [](Communicator& group) {
    const std::string text = comm_error_of([&] {
      group.barrier();
      if (group.rank() == 2) group.fail_all("rank 2 ran out of memory");
      group.barrier();
    });
    EXPECT_HAS(text, "rank 2 ran out of memory");
  });
}

TEST_P(Transports, ErrorsOfAGroupNameTheRanksOfTheJob) {
  on_ranks(4, GetParam(), [](Communicator& world) {
    const auto group = world.split(world.rank() % 2, -world.rank());
    const std::string text = comm_error_of([&] {
      int32_t value = 0;
      group->all_reduce(&value, &value, world.rank() < 2 ? 1 : 0, DType::kInt32, ReduceOp::kSum);
      group->barrier();
    });
    const int low = world.rank() % 2;
    for (const int rank : {low, low + 2}) EXPECT_HAS(text, str("rank ", rank, " calls "));
    world.barrier();
  });
}

TEST(SharedMemory, AllToAllNamesRanksOfTheJob) {
  on_shared_memory(3, [](Communicator& world) {
    const auto group = world.split(world.rank() == 0 ? -1 : 0, world.rank());
    if (!group) return;
    const size_t send[] = {0, 0}, receive[] = {8, 8};
    std::vector<std::byte> in(16), out(16);
    EXPECT_HAS(error_of([&] { group->all_to_all(in.data(), send, out.data(), receive); }),
               str("all_to_all: rank 1 sends 0 bytes, rank ", world.rank(), " expects 8"));
  });
}

TEST(SharedMemory, ManyOperationsInARowKeepTheirBuffersApart) {
  on_shared_memory(3, [](Communicator& group) {
    for (int32_t i = 0; i < 3000; ++i) {
      int32_t value = i + group.rank(), sum = 0;
      group.all_reduce(&value, &sum, 1, DType::kInt32, ReduceOp::kSum);
      ASSERT_EQ(sum, 3 * i + 3);
    }
  });
}

}  // namespace
}  // namespace mxlite
