// Tests the agreement on calls by number, without communication. Every rank reads all messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/ordered_calls.h"

namespace mxlite {
namespace {

// Lets `reader` read what a rank has announced.
void deliver(OrderedCalls& from, int rank, OrderedCalls& reader) {
  FrameWriter writer;
  from.write(writer);
  const std::vector<std::byte> bytes = writer.take();
  FrameReader frame(bytes, "test");
  reader.read(rank, frame);
}

class Job {
 public:
  explicit Job(int ranks) : ranks_(static_cast<size_t>(ranks), OrderedCalls(ranks)) {}
  OrderedCalls& rank(int r) { return ranks_[static_cast<size_t>(r)]; }

  // Runs one round and returns the calls that are due, which must be equal on all ranks.
  std::vector<OrderedCalls::Due> round() {
    std::vector<std::vector<std::byte>> frames;
    for (OrderedCalls& calls : ranks_) {
      FrameWriter frame;
      calls.write(frame);
      frames.push_back(frame.take());
      EXPECT_FALSE(calls.has_news());
    }
    std::vector<OrderedCalls::Due> first;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (size_t from = 0; from < frames.size(); ++from) {
        FrameReader frame(frames[from], "test");
        ranks_[r].read(static_cast<int>(from), frame);
        EXPECT_TRUE(frame.at_end());
      }
      const std::vector<OrderedCalls::Due> due = ranks_[r].take_due();
      if (r == 0) first = due;
      EXPECT_EQ(due.size(), first.size());
      for (size_t i = 0; i < due.size() && i < first.size(); ++i) {
        EXPECT_EQ(due[i].number, first[i].number);
        EXPECT_EQ(due[i].same, first[i].same);
        EXPECT_EQ(due[i].failed, first[i].failed);
      }
    }
    return first;
  }

 private:
  std::vector<OrderedCalls> ranks_;
};

TEST(OrderedCalls, ACallIsDueWhenAllRanksAreReady) {
  Job job(3);
  job.rank(0).announce({1, 11});
  job.rank(1).announce({1, 11});
  EXPECT_TRUE(job.round().empty());
  job.rank(2).announce({1, 11});
  const auto due = job.round();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].number, 1u);
  EXPECT_TRUE(due[0].same && due[0].failed.empty());
  EXPECT_TRUE(job.round().empty());
}

TEST(OrderedCalls, DifferentCallsAndFailedOnesAreTold) {
  Job job(2);
  job.rank(0).announce({1, 11});
  job.rank(1).announce({1, 12});
  job.rank(0).announce({2, 13});
  job.rank(1).announce({2, 13, true});
  const auto due = job.round();
  ASSERT_EQ(due.size(), 2u);
  EXPECT_FALSE(due[0].same);
  EXPECT_TRUE(due[1].same);
  EXPECT_EQ(due[1].failed, std::vector<int>{1});
}

TEST(OrderedCalls, AWithdrawnCallIsForgotten) {
  Job job(2);
  job.rank(0).announce({1, 11});
  job.rank(0).announce({2, 12});
  job.rank(0).withdraw({}, 2);  // it is not sent yet, so no rank learns of it
  EXPECT_TRUE(job.round().empty());
  EXPECT_TRUE(job.rank(1).is_announced({}, 1));
  EXPECT_FALSE(job.rank(1).is_announced({}, 2));
  job.rank(0).withdraw({}, 1);
  EXPECT_TRUE(job.round().empty());
  for (const int r : {0, 1}) {
    EXPECT_FALSE(job.rank(r).has_waiting());
    EXPECT_TRUE(job.rank(r).waiting(-1).empty());
  }
  OrderedCalls stranger(2);
  stranger.withdraw({}, 9);
  EXPECT_THROW(deliver(stranger, 1, job.rank(0)), Error);
}

TEST(OrderedCalls, ReadinessInAnyOrderCompletesEveryCallOnceAndAscending) {
  constexpr int kRanks = 4;
  constexpr uint64_t kCalls = 200;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Job job(kRanks);
    std::vector<std::vector<uint64_t>> left(kRanks);
    for (auto& numbers : left) {
      for (uint64_t n = 1; n <= kCalls; ++n) numbers.push_back(n);
      std::shuffle(numbers.begin(), numbers.end(), random);
    }
    std::vector<int> seen(kCalls + 1);
    for (bool more = true; more;) {
      more = false;
      for (int r = 0; r < kRanks; ++r) {
        auto& numbers = left[static_cast<size_t>(r)];
        for (size_t n = random() % 9; n > 0 && !numbers.empty(); --n) {
          job.rank(r).announce({numbers.back(), numbers.back() * 7});
          numbers.pop_back();
        }
        more = more || !numbers.empty();
      }
      uint64_t last = 0;
      for (const auto& due : job.round()) {
        EXPECT_LT(last, due.number);
        last = due.number;
        EXPECT_TRUE(due.same);
        ++seen[due.number];
      }
    }
    for (uint64_t n = 1; n <= kCalls; ++n) EXPECT_EQ(seen[n], 1) << "seed " << seed;
  }
}

TEST(OrderedCalls, RanksThatAreWaitedForAreNamed) {
  Job job(3);
  job.rank(1).announce({5, 1});
  EXPECT_TRUE(job.round().empty());
  EXPECT_TRUE(job.rank(0).waiting(1000).empty());
  const auto waiting = job.rank(0).waiting(0);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].number, 5u);
  EXPECT_EQ(waiting[0].missing, (std::vector<int>{0, 2}));
}

// Process set 1 has ranks 0 and 2.
const std::vector<int>* members_of(int32_t set) {
  static const std::vector<int> all = {0, 1, 2}, some = {0, 2};
  return set == 0 ? &all : set == 1 ? &some : nullptr;
}

// Moves what every rank has announced to `reader`.
void exchange(OrderedCalls& reader, std::vector<OrderedCalls>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) deliver(ranks[r], static_cast<int>(r), reader);
}

TEST(OrderedCalls, SetsAndMessagesHaveNumbersAndRanksOfTheirOwn) {
  OrderedCalls reader(3, members_of);
  std::vector<OrderedCalls> ranks(3, OrderedCalls(3, members_of));
  const CallChannel set{1, -1, -1}, message{0, 2, 1};
  ranks[0].announce({1, 5, false, set});
  ranks[1].announce({1, 8, false, message});
  exchange(reader, ranks);
  EXPECT_TRUE(reader.take_due().empty());
  EXPECT_TRUE(reader.has_waiting());
  const auto waiting = reader.waiting(0);
  ASSERT_EQ(waiting.size(), 2u);
  for (const auto& one : waiting) EXPECT_EQ(one.missing, std::vector<int>{2});
  ranks[2].announce({1, 8, false, message});
  ranks[2].announce({1, 6, false, set});
  exchange(reader, ranks);
  const auto due = reader.take_due();
  ASSERT_EQ(due.size(), 2u);
  EXPECT_EQ(due[0].channel, message);
  EXPECT_TRUE(due[0].same);
  EXPECT_EQ(due[1].channel, set);
  EXPECT_FALSE(due[1].same);
  EXPECT_FALSE(reader.has_waiting());
}

TEST(OrderedCalls, CallsOfARemovedSetAreForgotten) {
  OrderedCalls reader(3, members_of);
  std::vector<OrderedCalls> ranks(3, OrderedCalls(3, members_of));
  ranks[0].announce({1, 5, false, {1, -1, -1}});
  ranks[0].announce({1, 5, false, {0, -1, -1}});
  exchange(reader, ranks);
  reader.drop(1);
  const auto waiting = reader.waiting(0);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].channel.set, 0);
  ranks[2].announce({1, 5, false, {1, -1, -1}});
  ranks[2].drop(1);
  EXPECT_FALSE(ranks[2].has_news());
}

TEST(OrderedCalls, CallsOfOtherRanksAreRefused) {
  for (const auto& [rank, channel] : std::vector<std::pair<int, CallChannel>>{{1, {1, -1, -1}},
                                                                              {0, {7, -1, -1}},
                                                                              {0, {0, 1, 2}},
                                                                              {0, {0, 0, 0}},
                                                                              {0, {0, 0, 9}},
                                                                              {0, {0, -1, 1}}}) {
    OrderedCalls calls(3, members_of);
    calls.announce({1, 1, false, channel});
    EXPECT_THROW(deliver(calls, rank, calls), Error);
  }
}

TEST(OrderedCalls, DamagedFramesAreRefused) {
  OrderedCalls calls(2);
  FrameWriter twice;
  calls.announce({1, 1});
  calls.announce({1, 1});
  calls.write(twice);
  const auto bytes = twice.take();
  FrameReader repeated(bytes, "test");
  EXPECT_THROW(calls.read(1, repeated), Error);
  const std::vector<std::byte> short_of_one(bytes.begin(), bytes.end() - 1);
  FrameReader cut(short_of_one, "test");
  EXPECT_THROW(calls.read(0, cut), Error);
}

}  // namespace
}  // namespace mxlite
