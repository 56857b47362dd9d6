// Tests small ordered calls that ranks carry out from slots. Ranks are threads with one segment of
// memory, so that the thread sanitizer finds races between them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/jobs/slot_calls.h"
#include "tests/cpp/shm_ranks.h"

namespace mxlite::jobs {
namespace {

class Counter final : public OperationOwner {
 public:
  void notify(size_t operations, std::exception_ptr error) override {
    const std::lock_guard lock(mutex_);
    (error ? failed : succeeded) += operations;
    changed_.notify_all();
  }
  void wait_for(size_t wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return succeeded >= wanted; });
  }
  std::atomic<size_t> succeeded{0}, failed{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

// The groups and the calls of one rank.
struct Rank {
  explicit Rank(Communicator& world_group) : world(world_group) {
    control = make_control(world, /*cycle_ms=*/1);
    calls.connect(*control, shm::cores_for_all(world.size()));
    members.resize(static_cast<size_t>(world.size()));
    std::iota(members.begin(), members.end(), 0);
    calls.add_group(0, world, members);
    second = world.split(0, world.rank());
    calls.add_group(1, *second, members);
  }
  int rank() const { return world.rank(); }
  OperationRef call(CollectiveKind kind, uint64_t number, int64_t elements, int set = 0,
                    const std::string& name = "call") {
    Request request;
    request.name = name;
    request.kind = kind;
    request.shape = {elements};
    request.set = set;
    request.same_shapes = true;
    auto operation = make_ref<Operation>();
    operation->asked = make_ref<const SharedRequest>(request);
    operation->owner = &owner;
    operation->number = number;
    operation->channel.set = set;
    const int64_t size = world.size();
    const int64_t results = kind == CollectiveKind::kAllGather       ? elements * size
                            : kind == CollectiveKind::kReduceScatter ? elements / size
                                                                     : elements;
    operation->input = NDArray::empty({Shape{elements}, DType::kFloat32}, Device{});
    operation->output = NDArray::empty({Shape{results}, DType::kFloat32}, Device{});
    float* values = static_cast<float*>(operation->input->data());
    for (int64_t i = 0; i < elements; ++i) values[i] = value(number, rank(), i);
    return operation;
  }
  static float value(uint64_t number, int rank, int64_t i) {
    return static_cast<float>(
        (number * 31 + static_cast<uint64_t>(rank) * 7 + static_cast<uint64_t>(i)) % 1000);
  }
  // Compares the result with a sum or a copy that does not use the slots.
  void check(const Operation& operation) const {
    const Request& request = operation.request();
    const auto* out = static_cast<const float*>(operation.output->data());
    const int64_t n = request.shape[0];
    const auto sum = [&](int64_t i) {
      float total = 0;
      for (int r = 0; r < world.size(); ++r) total += value(operation.number, r, i);
      return total;
    };
    const int64_t part = n / world.size();
    for (int64_t i = 0; i < operation.output->shape()[0]; ++i) {
      float wanted = 0;
      if (request.kind == CollectiveKind::kAllReduce)
        wanted = sum(i);
      else if (request.kind == CollectiveKind::kAllGather)
        wanted = value(operation.number, static_cast<int>(i / n), i % n);
      else if (request.kind == CollectiveKind::kReduceScatter)
        wanted = sum(rank() * part + i);
      else if (request.kind == CollectiveKind::kAllToAll)
        wanted = value(operation.number, static_cast<int>(i / part), rank() * part + i % part);
      else
        wanted = value(operation.number, 0, i);
      ASSERT_EQ(out[i], wanted) << "call " << operation.number << ", element " << i;
    }
  }
  void wait_for(size_t succeeded) {
    const Deadline deadline(60);
    while (owner.succeeded < succeeded && !deadline.over())
      if (!calls.poll(/*idle=*/true)) std::this_thread::yield();
    ASSERT_EQ(owner.succeeded, succeeded);
    ASSERT_EQ(owner.failed, 0u);
  }

  Communicator& world;
  std::unique_ptr<Communicator> second;
  std::unique_ptr<ControlChannel> control;
  std::vector<int> members;
  Counter owner;
  SlotCalls calls;
};

void on_ranks(int ranks, const std::function<void(Rank&)>& body) {
  on_shared_memory(ranks, [&](Communicator& group) {
    Rank rank(group);
    body(rank);
    group.barrier();
  });
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Ranks, testing::Values(1, 2, 3, 4));

TEST_P(Ranks, CallsOfTwoSetsInOtherOrdersOnEachRankHaveTheirResults) {
  on_ranks(GetParam(), [](Rank& me) {
    constexpr uint64_t kCalls = 600, kTogether = 24;
    constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                         CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                                         CollectiveKind::kBroadcast};
    std::mt19937 same(7), own(static_cast<uint32_t>(me.rank()) + 1);
    std::vector<OperationRef> all;
    for (uint64_t first = 1; first <= kCalls; first += kTogether) {
      std::vector<OperationRef> some;
      for (uint64_t number = first; number < first + kTogether; ++number)
        for (const int set : {0, 1})
          some.push_back(me.call(kKinds[same() % 5], number,
                                 static_cast<int64_t>(same() % 200) * me.world.size(), set));
      std::shuffle(some.begin(), some.end(), own);
      for (const OperationRef& one : some) {
        // A rank is at most one block ahead of another one, so the slots suffice.
        ASSERT_TRUE(me.calls.take(one)) << one->number;
        me.calls.poll(/*idle=*/false);
        all.push_back(one);
      }
      me.wait_for(all.size());
    }
    for (const OperationRef& one : all) me.check(*one);
    EXPECT_EQ(me.calls.counts().calls, 2 * kCalls);
    EXPECT_FALSE(me.calls.waiting());
  });
}

TEST_P(Ranks, TwoThreadsOfARankCompleteEveryCallOnce) {
  on_ranks(GetParam(), [](Rank& me) {
    constexpr uint64_t kCalls = 2000;
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done) {
        me.calls.complete_all();
        if (!me.calls.poll(/*idle=*/true)) std::this_thread::yield();
      }
    });
    std::vector<OperationRef> all;
    for (uint64_t number = 1; number <= kCalls; ++number) {
      all.push_back(me.call(CollectiveKind::kAllReduce, number, 16));
      ASSERT_TRUE(me.calls.take(all.back()));
      me.wait_for(number);
    }
    done = true;
    other.join();
    for (const OperationRef& one : all) me.check(*one);
  });
}

// One thread polls like a worker that then sleeps, and one sleeps until other ranks ring it. A lost
// ring would let both sleep.
TEST_P(Ranks, ACallThatNobodyPollsForWakesTheCommThread) {
  on_ranks(GetParam(), [](Rank& me) {
    constexpr uint64_t kCalls = 1000;
    constexpr double kSleep = 40;  // seconds
    std::atomic<bool> done{false};
    std::thread comm([&] {
      while (!done) {
        const uint32_t seen = me.control->rings();
        me.calls.complete_all();
        const Deadline slept(kSleep / 2);
        if (!done) me.control->sleep(seen, kSleep);
        EXPECT_FALSE(slept.over());
      }
    });
    std::mt19937 own(static_cast<uint32_t>(me.rank()));
    std::vector<OperationRef> all;
    for (uint64_t number = 1; number <= kCalls; ++number) {
      if (own() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
      all.push_back(me.call(CollectiveKind::kAllReduce, number, 16));
      ASSERT_TRUE(me.calls.take(all.back()));
      if (own() % 2 == 0)
        me.calls.poll_briefly();
      else
        while (me.calls.poll(/*idle=*/true)) {
        }
      me.owner.wait_for(number);
      ASSERT_EQ(me.owner.succeeded, number);
    }
    done = true;
    me.control->ring();
    comm.join();
    for (const OperationRef& one : all) me.check(*one);
  });
}

TEST(SlotCalls, ACallIsAnnouncedUnlessItIsComplete) {
  on_ranks(2, [](Rank& me) {
    const auto always = [](const Operation&) { return true; };
    const auto never = [](const Operation&) { return false; };
    const OperationRef one = me.call(CollectiveKind::kAllReduce, 1, 8);
    if (me.rank() == 0) {
      ASSERT_TRUE(me.calls.take(one));
      EXPECT_TRUE(me.calls.take_overdue(never).empty());  // the wait has only begun
      ASSERT_EQ(me.calls.take_overdue(always).size(), 1u);
      EXPECT_TRUE(me.calls.take_overdue(always).empty());
      me.world.barrier();
      me.world.barrier();
      // Only the comm thread completes a call that is announced, to withdraw it.
      me.calls.poll(/*idle=*/true);
      EXPECT_EQ(me.owner.succeeded, 0u);
      ASSERT_EQ(me.calls.complete_all().size(), 1u);
    } else {
      me.world.barrier();
      ASSERT_TRUE(me.calls.take(one));
      EXPECT_TRUE(me.calls.take_overdue(always).empty());
      EXPECT_TRUE(me.calls.complete_all().empty());
      me.world.barrier();
    }
    EXPECT_EQ(me.owner.succeeded, 1u);
    me.check(*one);
  });
}

TEST(SlotCalls, ACallWakesTheCommThreadWhileARankHasAnnouncedCalls) {
  on_ranks(2, [](Rank& me) {
    ASSERT_TRUE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, 8)));  // the first one rings
    me.wait_for(1);
    me.world.barrier();
    const OperationRef one = me.call(CollectiveKind::kAllReduce, 2, 8);
    const OperationRef two = me.call(CollectiveKind::kAllReduce, 3, 8);
    if (me.rank() == 0) {
      const uint32_t rings = me.control->rings();
      ASSERT_TRUE(me.calls.take(one));
      EXPECT_EQ(me.control->rings(), rings);
      me.calls.wake_for_calls(true);
      ASSERT_TRUE(me.calls.take(two));
      EXPECT_NE(me.control->rings(), rings);
      me.world.barrier();
    } else {
      me.world.barrier();
      const uint32_t rings = me.control->rings();
      me.calls.wake_for_calls(true);
      for (const OperationRef& call : {one, two}) ASSERT_TRUE(me.calls.take(call));
      EXPECT_EQ(me.control->rings(), rings);  // they are complete
    }
    me.wait_for(3);
  });
}

TEST(SlotCalls, AGroupWithoutMemoryTakesNoCalls) {
  on_ranks(2, [](Rank& me) {
    me.world.barrier();
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    me.world.barrier();
    if (me.rank() == 0) {  // The limit is that of the process, whose threads the ranks are.
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{4096, before.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    }
    me.calls.add_group(2, *me.second, me.members);
    me.world.barrier();
    if (me.rank() == 0) {
      ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    }
    EXPECT_FALSE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, 8, /*set=*/2)));
    me.calls.finish({2}, 1);
    me.calls.remove_group(2);
  });
}

// Rank 0 shows a call and announces another one, rank 1 completes both, and rank 0 shows a third
// call.
std::vector<OperationRef> complete_two(Rank& me) {
  const OperationRef one = me.call(CollectiveKind::kAllReduce, 1, 8);
  const OperationRef announced = me.call(CollectiveKind::kAllReduce, 2, 8);
  if (me.rank() == 0) {
    EXPECT_TRUE(me.calls.take(announced));
    EXPECT_EQ(me.calls.take_overdue([](const Operation&) { return true; }).size(), 1u);
    EXPECT_TRUE(me.calls.take(one));
  }
  me.world.barrier();
  if (me.rank() == 1) {
    EXPECT_TRUE(me.calls.take(one));
    EXPECT_TRUE(me.calls.take(announced));
  }
  me.world.barrier();
  if (me.rank() == 0) {
    EXPECT_TRUE(me.calls.take(me.call(CollectiveKind::kAllReduce, 3, 8)));
  }
  return {one, announced};
}

TEST(SlotCalls, CallsThatOtherRanksHaveCompletedSurviveTheRemovalOfTheirSet) {
  on_ranks(2, [](Rank& me) {
    const auto completed = complete_two(me);
    const SlotCalls::Removed removed = me.calls.remove_group(0);
    EXPECT_EQ(removed.announced.size(), me.rank() == 0 ? 1u : 0u);
    EXPECT_EQ(removed.incomplete.size(), me.rank() == 0 ? 1u : 0u);
    EXPECT_EQ(me.owner.succeeded, 2u);
    for (const OperationRef& done : completed) me.check(*done);
  });
}

TEST(SlotCalls, CloseCompletesWhatOtherRanksHaveCompleted) {
  on_ranks(2, [](Rank& me) {
    const auto completed = complete_two(me);
    me.calls.close(std::make_exception_ptr(Error(ErrorKind::kCommunicator, "the end")));
    EXPECT_EQ(me.owner.succeeded, 2u);
    EXPECT_EQ(me.owner.failed, me.rank() == 0 ? 1u : 0u);
    for (const OperationRef& done : completed) me.check(*done);
  });
}

TEST(SlotCalls, TheFirstCallWakesTheCommThread) {
  on_ranks(2, [](Rank& me) {
    const uint32_t rings = me.control->rings();
    EXPECT_FALSE(me.calls.used());
    ASSERT_TRUE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, 8)));
    EXPECT_TRUE(me.calls.used());
    EXPECT_NE(me.control->rings(), rings);
    me.wait_for(1);
  });
}

TEST(SlotCalls, DifferentCallsAreAnnouncedByAllRanks) {
  on_ranks(3, [](Rank& me) {
    const auto never = [](const Operation&) { return false; };
    const OperationRef one =
        me.call(CollectiveKind::kAllReduce, 1, 8, 0, me.rank() == 1 ? "other" : "call");
    ASSERT_TRUE(me.calls.take(one));
    me.world.barrier();
    EXPECT_EQ(me.calls.take_overdue(never).size(), 1u);
    EXPECT_TRUE(me.calls.complete_all().empty());
    me.calls.drop(*one);
    me.calls.finish({}, 1);
    EXPECT_FALSE(me.calls.waiting());
    me.world.barrier();
    const OperationRef next = me.call(CollectiveKind::kAllReduce, 2, 8);
    ASSERT_TRUE(me.calls.take(next));
    me.wait_for(1);
    me.check(*next);
  });
}

TEST(SlotCalls, NoSlotIsReusedBeforeAllRanksHaveReadIt) {
  on_ranks(2, [](Rank& me) {
    std::vector<OperationRef> shown;
    if (me.rank() == 0) {
      bool taken = true;
      for (uint64_t number = 1; taken; ++number) {
        const OperationRef one = me.call(CollectiveKind::kAllReduce, number, 8);
        taken = me.calls.take(one);
        if (taken) shown.push_back(one);
        ASSERT_LE(number, 1000u);
      }
      EXPECT_GE(shown.size(), 32u);
    }
    auto count = static_cast<double>(shown.size());
    me.world.broadcast(&count, sizeof count, 0);
    for (uint64_t number = 1; me.rank() == 1 && number <= static_cast<uint64_t>(count); ++number) {
      shown.push_back(me.call(CollectiveKind::kAllReduce, number, 8));
      ASSERT_TRUE(me.calls.take(shown.back()));
    }
    me.wait_for(shown.size());
    for (const OperationRef& one : shown) me.check(*one);
  });
}

TEST(SlotCalls, WhatSlotsCannotCarryIsRefused) {
  on_ranks(2, [](Rank& me) {
    EXPECT_FALSE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, int64_t{1} << 20)));
    EXPECT_FALSE(me.calls.take(me.call(CollectiveKind::kMessage, 1, 8)));
    EXPECT_FALSE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, 8, /*set=*/5)));
    me.calls.finish({}, 1);
    const OperationRef left = me.call(CollectiveKind::kAllReduce, 2, 8);
    me.world.barrier();
    if (me.rank() == 0) {
      ASSERT_TRUE(me.calls.take(left));
      ASSERT_EQ(me.calls.remove_group(0).incomplete.size(), 1u);
      EXPECT_FALSE(me.calls.take(me.call(CollectiveKind::kAllReduce, 3, 8)));
      ASSERT_TRUE(me.calls.take(me.call(CollectiveKind::kAllReduce, 1, 8, /*set=*/1)));
      me.calls.close(std::make_exception_ptr(Error(ErrorKind::kCommunicator, "the end")));
      EXPECT_EQ(me.owner.failed, 1u);
      EXPECT_FALSE(me.calls.waiting());
    }
  });
}

// The memory behind the slots is a ring; inputs lie in it until all ranks have finished the call.
TEST(SlotRing, NoInputIsOverwrittenWhileACallNeedsIt) {
  const auto segment = shm::SharedSegment::create_unnamed(2, size_t{16} << 10);
  shm::SlotRing mine(segment, 0), theirs(segment, 1);
  const std::vector<std::byte> first(64 * 300, std::byte{1}), later(64 * 300, std::byte{2});
  ASSERT_GE(mine.max_bytes(), first.size());
  ASSERT_TRUE(mine.show(1, 7, later.data(), 64 * 300));
  ASSERT_TRUE(mine.show(2, 7, first.data(), first.size()));
  mine.finish(1);
  theirs.finish(1);
  ASSERT_TRUE(mine.show(3, 7, later.data(), 64 * 200));  // at the beginning
  ASSERT_TRUE(mine.show(4, 7, later.data(), 64 * 100));  // up to the input of call 2
  EXPECT_FALSE(mine.show(5, 7, later.data(), 0));        // even an empty input has a place
  EXPECT_FALSE(mine.show(5, 7, later.data(), 64));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), mine.input(0, 2)));
  // Calls of random sizes are finished in another order than they are shown, and are compared with
  // copies of the inputs.
  std::mt19937 random(5);
  for (const uint64_t number : {2, 3, 4}) mine.finish(number), theirs.finish(number);
  struct Live {
    uint64_t number;
    std::vector<std::byte> input;
  };
  std::vector<Live> live;
  uint64_t next = 5;
  size_t refused = 0;
  for (int step = 0; step < 20000; ++step) {
    const size_t kinds[] = {0, 1, random() % 200, random() % 5000, mine.max_bytes()};
    std::vector<std::byte> input(kinds[random() % 5], static_cast<std::byte>(random()));
    if (mine.show(next, 7, input.data(), input.size()))
      live.push_back({next++, std::move(input)});
    else
      ++refused;
    if (live.empty() || random() % 2 == 0) continue;
    const size_t at = random() % std::min<size_t>(live.size(), 4);
    const Live& one = live[at];
    ASSERT_TRUE(std::equal(one.input.begin(), one.input.end(), mine.input(0, one.number)));
    mine.finish(one.number);
    theirs.finish(one.number);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(next, 3000u);
}

}  // namespace
}  // namespace mxlite::jobs
