// Tests collectives over TCP between hosts. Ranks are threads here.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/collective_operation.h"
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"
#include "cpp/kvstore/comm/tcp/transfers.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/shm_ranks.h"
#include "tests/cpp/tcp_ranks.h"

namespace mxlite {
namespace {

// Shortens the timeout, which the first wait reads.
[[maybe_unused]] const int kShortTimeout = setenv("MXLITE_COMM_TIMEOUT", "4", 1);

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Ranks, testing::Values(1, 2, 3, 4));

// Returns sums of random values, so that another order of additions would give other bits.
std::vector<std::vector<float>> sums(int ranks, bool over_tcp, DType dtype) {
  std::vector<std::vector<float>> results(static_cast<size_t>(ranks));
  const RankBody body = [&](Communicator& group) {
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
        group.all_reduce(values.data(), values.data(), count, dtype, ReduceOp::kSum);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
  };
  over_tcp ? on_tcp(ranks, body) : on_shared_memory(ranks, body);
  return results;
}

TEST_P(Ranks, AllReduceHasTheBitsOfSharedMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16}) {
    const auto there = sums(GetParam(), true, dtype), here = sums(GetParam(), false, dtype);
    for (size_t r = 0; r < there.size(); ++r)
      EXPECT_TRUE(there[r] == here[0] && here[r] == here[0]) << "rank " << r;
  }
}

TEST(Tcp, OnlyTheGroupOfAFailureFails) {
  on_tcp(4, [](Communicator& world) {
    const auto pair = world.split(world.rank() / 2, 0);
    if (world.rank() == 0) pair->fail_all("the pair has failed");
    if (world.rank() < 2) {
      EXPECT_HAS(comm_error_of([&] {
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
  on_tcp(3, [](Communicator& group) {
    if (group.rank() == 1) return;
    EXPECT_HAS(comm_error_of([&] { group.barrier(); }), "rank 1 has left the job");
  });
}

// Rank 0 without a communicator. The test accepts the connections of other ranks itself.
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

// Welcomes a member and returns the connection, which both sides may now use for messages.
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
      texts[static_cast<size_t>(r)] = comm_error_of([&] { tcp::make_communicator(job); });
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
      texts[static_cast<size_t>(r - 1)] = comm_error_of([&] { tcp::make_communicator(job); });
    }));
  for (std::thread& other : others) other.join();
  for (const std::string& text : texts) EXPECT_HAS(text, "must begin with the mark of a frame");
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
    text = comm_error_of([&] { tcp::make_communicator(job); });
  });
  other.join();
  EXPECT_EQ(text, "");
}

TEST(Tcp, ATransferThatMovesMayTakeLongerThanTheTimeout) {
  std::promise<Socket> promise;
  FirstRank first(
      2, [&](Reactor& reactor, ConnectionId id, int) { promise.set_value(welcome(reactor, id)); });
  std::string text;
  std::string came(8, ' ');
  std::thread other = first.run_job(1, [&](const std::shared_ptr<tcp::Job>& job) {
    text =
        comm_error_of([&] { tcp::make_communicator(job)->broadcast(came.data(), came.size(), 0); });
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
  EXPECT_EQ(text, "");
  EXPECT_EQ(came, sent);
}

}  // namespace
}  // namespace mxlite
