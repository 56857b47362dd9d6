// Collectives over TCP between hosts. Ranks are threads here.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/collective_operation.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"
#include "cpp/kvstore/comm/tcp/transfers.h"
#include "tests/cpp/comm_errors.h"
#include "tests/cpp/tcp_ranks.h"

namespace mxlite {
namespace {

// Shortens the timeout, which the first wait reads.
[[maybe_unused]] const int kShortTimeout = setenv("MXLITE_COMM_TIMEOUT", "4", 1);

using Body = std::function<void(Communicator&)>;

void on_ranks(int ranks, const Body& body) {
  const tcp::Rendezvous meeting(ranks, {"127.0.0.1", 0}, kToken);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto job = std::make_shared<tcp::Job>(place_of(meeting, r, ranks));
      body(*tcp::make_communicator(job));
    });
  for (auto& thread : threads) thread.join();
}

void on_shared_memory(int ranks, const Body& body) {
  const auto segment = shm::SharedSegment::create_unnamed(ranks, size_t{64} << 10);
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

// Random values, so that another order of additions would give other bits.
std::vector<std::vector<float>> sums(int ranks, bool over_tcp, DType dtype) {
  std::vector<std::vector<float>> results(static_cast<size_t>(ranks));
  const Body body = [&](Communicator& group) {
    std::vector<float>& all = results[static_cast<size_t>(group.rank())];
    for (const int64_t count : {0, 1, 3, 4096, 4097, 100003, 3000001}) {
      std::mt19937 random(static_cast<unsigned>(group.rank()) + 17);
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
      if (dtype == DType::kFloat16) {
        std::vector<float16> halves(values.begin(), values.end());
        group.all_reduce(halves.data(), halves.data(), count, dtype, ReduceOp::kSum);
        for (const float16 h : halves) all.push_back(static_cast<float>(h));
      } else {
        std::vector<float> out(values.size());
        group.all_reduce(values.data(), out.data(), count, dtype, ReduceOp::kSum);
        all.insert(all.end(), out.begin(), out.end());
      }
    }
  };
  over_tcp ? on_ranks(ranks, body) : on_shared_memory(ranks, body);
  return results;
}

TEST_P(Ranks, AllReduceHasTheBitsOfSharedMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    const auto there = sums(GetParam(), true, dtype), here = sums(GetParam(), false, dtype);
    for (size_t r = 0; r < there.size(); ++r) EXPECT_TRUE(there[r] == here[0]) << "rank " << r;
  }
}

TEST_P(Ranks, GatherAndScatterOfUnevenParts) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto n = static_cast<size_t>(group.size());
    const auto me = static_cast<size_t>(group.rank());
    std::vector<int64_t> counts(n);
    for (size_t r = 0; r < n; ++r) counts[r] = static_cast<int64_t>(r * 1500000);  // rank 0: none
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
  });
}

TEST_P(Ranks, AllToAllBroadcastAndBarrier) {
  on_ranks(GetParam(), [](Communicator& group) {
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

TEST(Tcp, SplitMakesGroupsOrderedByKey) {
  on_ranks(4, [](Communicator& world) {
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

TEST(Tcp, RanksThatDisagreeAreNamedOnAllOfThem) {
  on_ranks(3, [](Communicator& group) {
    std::vector<float> values(100);
    const std::string text = error_of([&] {
      group.all_reduce(values.data(), values.data(), group.rank() == 1 ? 99 : 100, DType::kFloat32,
                       ReduceOp::kSum);
      group.barrier();
    });
    EXPECT_HAS(text, "all_reduce (sum, 396 bytes of float32)");
    EXPECT_HAS(text, "all_reduce (sum, 400 bytes of float32)");
    EXPECT_HAS(text, "rank 1");
    EXPECT_EQ(error_of([&] { group.barrier(); }), text);
  });
}

TEST(Tcp, AFailureOfOneRankReachesRanksThatWait) {
  on_ranks(3, [](Communicator& group) {
    const std::string text = error_of([&] {
      group.barrier();
      if (group.rank() == 2) group.fail_all("rank 2 ran out of memory");
      group.barrier();
    });
    EXPECT_HAS(text, "rank 2 ran out of memory");
  });
}

TEST(Tcp, OnlyTheGroupOfAFailureFails) {
  on_ranks(4, [](Communicator& world) {
    const auto pair = world.split(world.rank() / 2, 0);
    if (world.rank() == 0) pair->fail_all("the pair has failed");
    if (world.rank() < 2) {
      EXPECT_HAS(error_of([&] {
                   while (true) pair->barrier();
                 }),
                 "the pair has failed");
    } else {
      pair->barrier();
    }
    world.barrier();
  });
}

TEST(Tcp, ARankThatLeavesIsNamed) {
  on_ranks(3, [](Communicator& group) {
    if (group.rank() == 1) return;
    EXPECT_HAS(error_of([&] { group.barrier(); }), "rank 1 has left the job");
  });
}

// Rank 0 without a communicator: takes the connections of other ranks by hand.
class FirstRank {
 public:
  using OnHello = std::function<void(Reactor&, ConnectionId, int rank)>;
  FirstRank(int size, OnHello on_hello)
      : size_(size),
        on_hello_(std::move(on_hello)),
        meeting_(size, {"127.0.0.1", 0}, kToken),
        impostor_(meeting_, kToken, listen()) {
    impostor_.joined();
  }
  ~FirstRank() { reactor_.stop(0); }
  std::thread run_job(int rank, std::function<void(const std::shared_ptr<tcp::Job>&)> body) {
    return std::thread([this, rank, body = std::move(body)] {
      body(std::make_shared<tcp::Job>(place_of(meeting_, rank, size_)));
    });
  }

 private:
  members::Registration listen() {
    reactor_.set_handlers({[](ConnectionId) {},
                           [this](ConnectionId id, const Frame& frame) {
                             on_hello_(reactor_, id, decode<members::Hello>(frame.body).rank);
                           },
                           [](ConnectionId, const std::string&, bool) {}});
    members::Registration r = registration(0, size_);
    r.address = address_text(reactor_.listen({"127.0.0.1", 0}));
    reactor_.start("first-rank");
    return r;
  }
  const int size_;
  const OnHello on_hello_;
  tcp::Rendezvous meeting_;
  Reactor reactor_{key_of_secret(kToken), "rank 0"};
  Impostor impostor_;
};

// Returns a connection that both members may use for messages.
Socket welcome(Reactor& reactor, ConnectionId id) {
  reactor.send(id, {FrameType::kWelcome, 0, encode(members::Welcome{}), {}});
  return reactor.release(id);
}

void send_all(const Socket& socket, const void* data, size_t bytes) {
  EXPECT_EQ(send(socket.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

TEST(Tcp, ARankThatLeavesBeforeItConnectsIsNamed) {
  const tcp::Rendezvous meeting(3, {"127.0.0.1", 0}, kToken);
  std::vector<std::string> texts(3);
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      const auto job = std::make_shared<tcp::Job>(place_of(meeting, r, 3));
      if (r == 1) return;
      texts[static_cast<size_t>(r)] = error_of([&] { tcp::make_communicator(job); });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));  // the timeout is 4 s
  for (const int r : {0, 2}) EXPECT_HAS(texts[static_cast<size_t>(r)], "rank 1 has left the job");
}

TEST(Tcp, AnErrorOfOneRankThatConnectsReachesTheOthers) {
  // Rank 0 is another process of the job for rank 2, and answers rank 1 with nonsense.
  std::vector<Socket> sockets;
  FirstRank first(3, [&](Reactor& reactor, ConnectionId id, int rank) {
    if (rank != 1) return;
    sockets.push_back(reactor.release(id));
    send_all(sockets.back(), std::string(100, 'z').data(), 100);
  });
  std::vector<std::string> texts(2);
  std::vector<std::thread> others;
  for (const int r : {1, 2})
    others.push_back(first.run_job(r, [&texts, r](const std::shared_ptr<tcp::Job>& job) {
      texts[static_cast<size_t>(r - 1)] = error_of([&] { tcp::make_communicator(job); });
    }));
  for (std::thread& other : others) other.join();
  for (const std::string& text : texts) EXPECT_HAS(text, "bytes that are no frame");
}

TEST(Tcp, AConnectionThatEndsBeforeItsAnswerIsOpenedAgain) {
  std::vector<Socket> sockets;
  int calls = 0;
  FirstRank first(2, [&](Reactor& reactor, ConnectionId id, int) {
    if (++calls == 1) return reactor.close(id, "the test");
    sockets.push_back(welcome(reactor, id));
  });
  std::string text = "not run";
  std::thread other = first.run_job(1, [&](const std::shared_ptr<tcp::Job>& job) {
    text = error_of([&] { tcp::make_communicator(job); });
  });
  other.join();
  EXPECT_EQ(text, "no error");
}

TEST(Tcp, ATransferThatMovesMayTakeLongerThanTheTimeout) {
  std::promise<Socket> promise;
  FirstRank first(
      2, [&](Reactor& reactor, ConnectionId id, int) { promise.set_value(welcome(reactor, id)); });
  std::string text = "no error";
  std::string came(8, ' ');
  std::thread other = first.run_job(1, [&](const std::shared_ptr<tcp::Job>& job) {
    text = error_of([&] { tcp::make_communicator(job)->broadcast(came.data(), came.size(), 0); });
  });
  const Socket socket = promise.get_future().get();
  const std::string sent = "a letter";
  const tcp::MessageHeader header = {
      signature_of({CollectiveCall::kBroadcast, DType::kUInt8, 0, sent.size()}), 1, sent.size()};
  send_all(socket, &header, sizeof header);
  for (const char& letter : sent) {  // the timeout is 4 s
    std::this_thread::sleep_for(std::chrono::milliseconds(750));
    send_all(socket, &letter, 1);
  }
  other.join();
  EXPECT_EQ(text, "no error");
  EXPECT_EQ(came, sent);
}

}  // namespace
}  // namespace mxlite
