// Tests negotiation without processes. Each rank's negotiator gets the frames of all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "cpp/base/error.h"
#include "cpp/horovod/negotiator.h"
#include "cpp/jobs/request_table.h"
#include "tests/cpp/errors.h"

namespace mxlite::horovod {
namespace {

Request all_reduce(const std::string& name, std::vector<int64_t> shape = {4}) {
  Request r;
  r.name = name;
  r.shape = std::move(shape);
  return r;
}

class Ranks {
 public:
  explicit Ranks(int ranks, int64_t cache = 1024, int64_t fusion_bytes = 128 << 20) {
    jobs::JobSettings settings;
    settings.cache_capacity = cache;
    settings.fusion_bytes = fusion_bytes;
    for (int r = 0; r < ranks; ++r) {
      ranks_.push_back(std::make_unique<Negotiator>(r, ranks, settings));
      tables_.push_back(std::make_unique<jobs::RequestTable>());
    }
  }
  Negotiator& rank(int r) { return *ranks_[static_cast<size_t>(r)]; }

  // Runs one round and checks that all ranks get the same result.
  std::vector<Response> round(std::vector<std::vector<Request>> news) {
    news.resize(ranks_.size());
    std::vector<std::vector<std::byte>> frames;
    frame_bytes = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<RequestRef> owned;
      std::vector<const SharedRequest*> asked;
      for (const Request& request : news[r]) {
        owned.push_back(share ? tables_[r]->share(request)
                              : make_ref<const SharedRequest>(request));
        asked.push_back(owned.back().get());
      }
      frames.push_back(ranks_[r]->make_frame(asked));
      frame_bytes += frames.back().size();
    }
    std::vector<Response> first;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      outcome = ranks_[r]->process(frames);
      if (r == 0) first = outcome.responses;
      EXPECT_EQ(texts(outcome.responses), texts(first)) << "rank " << r;
    }
    return first;
  }
  static std::vector<std::string> texts(const std::vector<Response>& responses) {
    std::vector<std::string> all;
    for (const Response& response : responses) {
      std::string text = response.error;
      for (const auto& entry : response.entries) text += "|" + entry.first().name;
      all.push_back(text);
    }
    return all;
  }

  Negotiator::Outcome outcome;
  size_t frame_bytes = 0;
  bool share = true;  // requests, from round to round

 private:
  std::vector<std::unique_ptr<jobs::RequestTable>> tables_;
  std::vector<std::unique_ptr<Negotiator>> ranks_;
};

TEST(Negotiator, DifferentOrdersOnTheRanksGiveOneOrder) {
  Ranks job(2, /*cache=*/1024, /*fusion_bytes=*/0);
  const auto ready = job.round({{all_reduce("a"), all_reduce("b"), all_reduce("c")},
                                {all_reduce("c"), all_reduce("a"), all_reduce("b")}});
  EXPECT_EQ(Ranks::texts(ready), (std::vector<std::string>{"|c", "|a", "|b"}));
}

TEST(Negotiator, HigherPriorityGoesFirst) {
  Ranks job(2, /*cache=*/1024, /*fusion_bytes=*/0);
  std::vector<Request> news = {all_reduce("late"), all_reduce("early")};
  news[0].priority = -5;
  EXPECT_EQ(Ranks::texts(job.round({news, news})), (std::vector<std::string>{"|early", "|late"}));
}

TEST(Negotiator, KnownNamesTravelAsNumbers) {
  Ranks job(2);
  std::vector<Request> news;
  for (int i = 0; i < 50; ++i) news.push_back(all_reduce("a_long_name_" + std::to_string(i)));
  job.round({news, news});
  EXPECT_EQ(job.rank(1).cached_names(), 50u);
  uint64_t hits = 0;
  // The calls are made by requests that have come before, and by others of the same name and terms.
  for (const bool shared : {true, false, true}) {
    job.share = shared;
    const auto ready = job.round({news, news});
    EXPECT_LT(job.frame_bytes, 100u);  // each rank sends one run of numbers
    ASSERT_EQ(ready.size(), 1u);       // fused
    EXPECT_EQ(ready[0].entries.size(), 50u);
    EXPECT_EQ(job.rank(0).cache_hits(), hits += 100);
  }
  std::reverse(news.begin(), news.end());
  EXPECT_EQ(Ranks::texts(job.round({news, news}))[0].substr(0, 17), "|a_long_name_49|a");
  EXPECT_EQ(job.rank(0).cache_hits(), hits + 100);
}

TEST(Negotiator, AnswersSayByWhichNumberANameWasAnnounced) {
  Ranks job(2, /*cache=*/1);
  const auto round = [&](const char* name) {
    return job.round({{all_reduce(name)}, {all_reduce(name)}})[0].entries[0].number;
  };
  EXPECT_EQ(round("a").index, jobs::kNoNumber);
  const CacheNumber a = round("a");
  EXPECT_EQ(a.index, 0u);
  EXPECT_EQ(job.outcome.forgotten, std::vector<uint32_t>{});
  EXPECT_EQ(round("b").index, jobs::kNoNumber);
  EXPECT_EQ(job.outcome.forgotten, std::vector<uint32_t>{0});
  const CacheNumber b = round("b");
  EXPECT_EQ(b.index, 0u);  // there is only one
  EXPECT_NE(b.stamp, a.stamp);
  const auto asked = make_ref<const SharedRequest>(all_reduce("b", {5}));
  EXPECT_EQ(job.rank(0).number_of(*asked).stamp, b.stamp);  // other terms, the same name
  EXPECT_EQ(job.rank(0).number_of(SharedRequest(all_reduce("a"))).index, jobs::kNoNumber);
  job.round({{all_reduce("b", {5})}, {}});
  EXPECT_EQ(job.outcome.forgotten, std::vector<uint32_t>{0});
}

TEST(Negotiator, AGroupMayWaitWhileItsNumbersAreGivenToOthers) {
  Ranks job(2, /*cache=*/2);
  std::vector<Request> group = {all_reduce("g1"), all_reduce("g2")};
  for (Request& r : group) {
    r.group = "g";
    r.group_size = 2;
  }
  job.round({group, group});
  EXPECT_TRUE(job.round({{group[0]}, {group[0]}}).empty());  // by number, and waits for g2
  for (const char* name : {"a", "b", "c"}) job.round({{all_reduce(name)}, {all_reduce(name)}});
  const auto now = job.round({{all_reduce("c")}, {all_reduce("c")}});
  const auto ready = job.round({{group[1]}, {group[1]}});
  ASSERT_EQ(Ranks::texts(ready), std::vector<std::string>{"|g1|g2"});
  EXPECT_NE(ready[0].entries[0].number.stamp, now[0].entries[0].number.stamp);
}

TEST(Negotiator, RequestsAreSharedByNameAndTerms) {
  jobs::RequestTable table;
  const RequestRef first = table.share(all_reduce("a"));
  EXPECT_EQ(table.share(all_reduce("a")), first);
  EXPECT_EQ(first->bytes, 16u);
  const RequestRef other = table.share(all_reduce("a", {5}));
  EXPECT_NE(other, first);
  EXPECT_EQ(table.share(all_reduce("a", {5})), other);
  Request urgent = all_reduce("a", {5});
  urgent.priority = 1;
  EXPECT_NE(table.share(urgent), other);
  EXPECT_EQ(first->terms.shape, std::vector<int64_t>{4});  // its holders keep it
  const RequestRef b = table.share(all_reduce("b"));
  for (int i = 0; i < 40000; ++i) table.share(all_reduce("counted." + std::to_string(i)));
  EXPECT_EQ(b->use_count(), 1u);  // released: the table does not grow without limit
}

TEST(Negotiator, OtherTermsOfAKnownNameAreNegotiatedAnew) {
  Ranks job(2);
  job.round({{all_reduce("a")}, {all_reduce("a")}});
  // One rank asks first, in the same round or in an earlier one.
  auto ready = job.round({{all_reduce("a", {7})}, {all_reduce("a")}});
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_HAS(ready[0].error, "(7,) and (4,)");
  ready = job.round({{all_reduce("a", {7})}, {all_reduce("a", {7})}});
  EXPECT_EQ(Ranks::texts(ready), std::vector<std::string>{"|a"});
  EXPECT_TRUE(job.round({{all_reduce("a", {7})}, {}}).empty());
  ready = job.round({{}, {all_reduce("a", {9})}});
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_NE(ready[0].error, "");
}

TEST(Negotiator, MismatchesNameRanksTensorAndValues) {
  Ranks job(3);
  Request other = all_reduce("grad", {4});
  other.dtype = DType::kInt32;
  const auto ready = job.round({{all_reduce("grad")}, {all_reduce("grad")}, {other}});
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].error,
            "Mismatched data types: float32 and int32 (allreduce of 'grad', ranks 0 and 2)");
  // The job continues.
  EXPECT_EQ(
      Ranks::texts(job.round({{all_reduce("grad")}, {all_reduce("grad")}, {all_reduce("grad")}})),
      std::vector<std::string>{"|grad"});
}

TEST(Negotiator, AGroupStartsAllAtOnceAndFailsAllAtOnce) {
  Ranks job(2);
  std::vector<Request> group = {all_reduce("g1"), all_reduce("g2", {3})};
  for (Request& r : group) {
    r.group = "g";
    r.group_size = 2;
  }
  EXPECT_TRUE(job.round({group, {group[0]}}).empty());
  EXPECT_EQ(job.round({{}, {group[1]}}).size(), 1u);
  auto wrong = group;
  wrong[1].shape = {5};
  const auto ready = job.round({group, wrong});
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_NE(ready[0].error, "");
  EXPECT_EQ(ready[0].error, ready[1].error);
}

TEST(Negotiator, FusionKeepsToTheThresholdAndToOneType) {
  Ranks job(1, /*cache=*/1024, /*fusion_bytes=*/100);
  std::vector<Request> news = {all_reduce("a", {10}), all_reduce("b", {10}), all_reduce("c", {10}),
                               all_reduce("d", {10})};
  news[1].dtype = DType::kFloat64;
  EXPECT_EQ(Ranks::texts(job.round({news})), (std::vector<std::string>{"|a|c", "|b", "|d"}));
}

TEST(Negotiator, ProcessSetsNeedOnlyTheirMembers) {
  Ranks job(3);
  Request add;
  add.name = "add";
  add.kind = CollectiveKind::kAddSet;
  add.splits = {0, 2};
  EXPECT_EQ(job.round({{add}, {add}, {add}})[0].error, "");
  EXPECT_NE(job.round({{add}, {add}, {add}})[0].error, "");  // a second time
  Request in_set = all_reduce("a");
  in_set.set = 1;
  const auto ready = job.round({{in_set}, {}, {in_set}});
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_EQ(ready[0].set, 1);
  const auto refused = job.round({{}, {in_set}, {}});
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_HAS(refused[0].error, "rank 1 is not in process set 1");
}

TEST(Negotiator, WhatWaitsForARemovedProcessSetIsRefused) {
  Ranks job(3);
  Request add;
  add.name = "add";
  add.kind = CollectiveKind::kAddSet;
  add.splits = {0, 2};
  job.round({{add}, {add}, {add}});
  const auto in_set = [](const char* name, const char* group = "") {
    Request request = all_reduce(name);
    request.set = 1;
    request.group = group;
    request.group_size = 2;
    return request;
  };
  const Request known = in_set("known"), late = in_set("late"), grouped = in_set("grouped", "g");
  job.round({{known, late}, {}, {known, late}});
  Request elsewhere = all_reduce("elsewhere");
  EXPECT_TRUE(job.round({{in_set("new"), grouped}, {elsewhere}, {known, grouped}}).empty());
  EXPECT_EQ(job.rank(0).stalls(0).size(), 3u);

  Request remove = add;
  remove.name = "remove";
  remove.kind = CollectiveKind::kRemoveSet;
  remove.splits = {1};
  EXPECT_TRUE(job.round({{}, {remove}, {remove}}).empty());
  // Rank 2 asks by number before it knows that the set is gone.
  EXPECT_EQ(
      Ranks::texts(job.round({{remove}, {}, {late}})),
      (std::vector<std::string>{
          "allreduce of 'known': process set 1 was removed before rank 0 called it|known",
          "allreduce of 'new': process set 1 was removed before rank 2 called it|new",
          "allreduce of 'grouped': process set 1 was removed before the rest of its group was "
          "called|grouped",
          "|remove", "allreduce of 'late': there is no process set 1 any more|late"}));
  EXPECT_EQ(job.outcome.forgotten.size(), 3u);
  EXPECT_EQ(
      Ranks::texts(job.round({{known}, {}, {}})),
      std::vector<std::string>{"allreduce of 'known': there is no process set 1 any more|known"});
  const auto stalls = job.rank(2).stalls(0);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].name, "elsewhere");
  EXPECT_EQ(Ranks::texts(job.round({{elsewhere}, {}, {elsewhere}})),
            std::vector<std::string>{"|elsewhere"});
}

TEST(Negotiator, LeastRecentlyUsedNamesAreForgotten) {
  Ranks job(2, /*cache=*/3, /*fusion_bytes=*/0);
  for (const char* name : {"a", "b", "c", "a", "d", "a", "e", "b"}) {
    job.round({{all_reduce(name)}, {all_reduce(name)}});
    EXPECT_LE(job.rank(0).cached_names(), 3u);
  }
  EXPECT_EQ(job.rank(0).cache_hits(), 4u);  // "a" twice, by two ranks
}

TEST(Negotiator, StallsNameTheMissingRanks) {
  Ranks job(3);
  job.round({{all_reduce("a")}, {}, {all_reduce("a")}});
  const auto stalls = job.rank(1).stalls(0);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].name, "a");
  EXPECT_EQ(stalls[0].missing, std::vector<int>{1});
  EXPECT_TRUE(job.rank(1).stalls(1000).empty());
}

TEST(Negotiator, RandomOrdersOfManyTensorsAllFinish) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(seed % 3);
    Ranks job(ranks, seed % 2 ? 8 : 1024);
    size_t done = 0;
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<Request>> left(static_cast<size_t>(ranks));
      for (auto& mine : left) {
        for (int i = 0; i < 30; ++i) mine.push_back(all_reduce("t" + std::to_string(i)));
        std::shuffle(mine.begin(), mine.end(), random);
      }
      for (int round = 0; round < 200; ++round) {
        std::vector<std::vector<Request>> news(left.size());
        for (size_t r = 0; r < left.size(); ++r)
          for (auto n = random() % 4; n > 0 && !left[r].empty(); --n) {
            news[r].push_back(left[r].back());
            left[r].pop_back();
          }
        for (const Response& response : job.round(news)) done += response.entries.size();
      }
    }
    EXPECT_EQ(done, 90u) << "seed " << seed;
    EXPECT_TRUE(job.rank(0).stalls(0).empty());
  }
}

// Returns the announcement of numbers that a rank would send.
std::vector<std::byte> frame_of_numbers(std::vector<uint32_t> runs) {
  FrameWriter frame;
  frame.number(static_cast<uint32_t>(runs.size() / 2));
  for (const uint32_t n : runs) frame.number(n);
  frame.number(uint32_t{0});
  return frame.take();
}

TEST(Negotiator, NumbersThatARankMayNotNameAreRefused) {
  const auto error_of = [](Ranks& job, const std::vector<uint32_t>& runs) {
    return comm_error_of([&] {
      job.rank(0).process({frame_of_numbers({}), frame_of_numbers(runs)});
    });
  };
  Ranks job(2);
  Request add;
  add.name = "add";
  add.kind = CollectiveKind::kAddSet;
  add.splits = {0};
  job.round({{add}, {add}});
  Request own = all_reduce("own");
  own.set = 1;
  job.round({{own, all_reduce("both")}, {all_reduce("both")}});
  ASSERT_EQ(job.rank(0).cached_names(), 2u);
  EXPECT_EQ(error_of(job, {1, 1}), "");
  EXPECT_HAS(error_of(job, {0, 1}), "rank 1 is not in process set 1");
  EXPECT_HAS(error_of(job, {0, 3}), "request numbers below 2, got 3 numbers from 0");
  EXPECT_HAS(error_of(job, {2, 1}), "request numbers below 2, got 1 numbers from 2");
  EXPECT_HAS(error_of(job, {1, UINT32_MAX}),
             "request numbers below 2, got 4294967295 numbers from 1");
}

TEST(Negotiator, DamagedFramesAreRefused) {
  std::mt19937 random(7);
  Request r = all_reduce("name", {2, 3});
  r.group = "g";
  r.group_size = 1;
  const auto asked = make_ref<const SharedRequest>(r);
  for (int i = 0; i < 3000; ++i) {
    Negotiator one(0, 1, {});
    std::vector<std::byte> frame = one.make_frame({asked.get()});
    if (random() % 2) frame.resize(random() % frame.size());
    for (auto n = random() % 4; n > 0 && !frame.empty(); --n)
      frame[random() % frame.size()] = static_cast<std::byte>(random());
    comm_error_of([&] { one.process({frame}); });
  }
}

}  // namespace
}  // namespace mxlite::horovod
