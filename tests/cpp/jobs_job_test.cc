// Tests the thread that negotiates in a job of one rank, while several threads give it operations.
#include "cpp/jobs/job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#include "cpp/base/error.h"
#include "cpp/horovod/named_operations.h"
#include "tests/cpp/errors.h"

namespace {
thread_local bool refuses_memory = false;
}

// These functions replace those of the C++ library, so that allocations of a thread can fail. If
// they were inlined, the compiler would warn that free gets memory from new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = refuses_memory ? nullptr : std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mxlite::jobs {
namespace {

class Owner final : public OperationOwner {
 public:
  void notify(size_t operations, std::exception_ptr error) override {
    std::lock_guard lock(mutex_);
    told_ += operations;
    for (size_t i = 0; i < operations && error; ++i)
      errors_.push_back(comm_error_of([&] { std::rethrow_exception(error); }));
    changed_.notify_all();
  }
  // Returns all errors so far.
  std::vector<std::string> wait_for(size_t operations) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return told_ >= operations; }))
        << told_ << " of " << operations;
    EXPECT_EQ(told_, operations);
    return errors_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t told_ = 0;
  std::vector<std::string> errors_;
};

class OneRank {
 public:
  explicit OneRank(int64_t cache_capacity = 1024) {
    JobOptions options;
    options.settings.cache_capacity = cache_capacity;
    std::mutex mutex;
    std::condition_variable made;
    thread_ = std::thread([&, options] {
      auto job =
          std::make_shared<Job>(make_world({}), options, timeline_, horovod::negotiate_by_name);
      {
        std::lock_guard lock(mutex);
        job_ = job;
        made.notify_all();
      }
      job->loop();
    });
    std::unique_lock lock(mutex);
    made.wait(lock, [&] { return job_ != nullptr; });
  }
  ~OneRank() { stop(); }
  void stop() {
    job_->request_stop();
    if (thread_.joinable()) thread_.join();
  }
  Job& job() { return *job_; }

  OperationRef sum(const std::string& name, int64_t elements, OperationOwner& owner,
                   bool queues = false) {
    Request request;
    request.name = name;
    request.shape = {elements};
    auto operation = make_ref<Operation>();
    operation->asked = job_->share(request);
    operation->owner = &owner;
    operation->queues = queues;
    operation->input = NDArray::empty({Shape{elements}, DType::kFloat32}, Device{});
    operation->output = NDArray::empty({Shape{elements}, DType::kFloat32}, Device{});
    auto* values = static_cast<float*>(operation->input->data());
    for (int64_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i);
    return operation;
  }

 private:
  Timeline timeline_;
  std::shared_ptr<Job> job_;
  std::thread thread_;
};

class JobOfManyThreads : public testing::TestWithParam<int64_t> {};

TEST_P(JobOfManyThreads, EveryOperationIsToldOnceAndHasItsResult) {
  constexpr size_t kThreads = 3, kSteps = 150, kNames = 6;
  OneRank job(GetParam());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&job, t] {
      Owner owner;
      std::vector<OperationRef> all;
      for (size_t step = 0; step < kSteps; ++step) {
        std::vector<OperationRef> operations;
        for (size_t n = 0; n < kNames; ++n) {
          const auto elements = static_cast<int64_t>(1 + n + (step / 40 + n) % 3);
          operations.push_back(job.sum(str("thread", t, ".", n), elements, owner, /*queues=*/true));
          all.push_back(operations.back());
          if (step % 2 == 0) {  // one after the other
            job.job().submit(std::move(operations));
            operations.clear();
          }
        }
        job.job().submit(std::move(operations));
        if (step % 5 == t) {
          EXPECT_TRUE(owner.wait_for(all.size()).empty());
        }
      }
      EXPECT_TRUE(owner.wait_for(all.size()).empty());
      for (const auto& o : all) {
        const auto* values = static_cast<const float*>(o->output->data());
        for (int64_t i = 0; i < o->output->size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i));
      }
    });
  for (auto& thread : threads) thread.join();
  const JobStats stats = job.job().stats();
  EXPECT_EQ(stats.tensors, kThreads * kSteps * kNames);
  EXPECT_LE(stats.cache_hits, stats.tensors);
  if (GetParam() > 100) {
    EXPECT_GT(stats.cache_hits, stats.tensors * 9 / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(CacheCapacities, JobOfManyThreads, testing::Values(1024, 5, 0));

TEST(Job, ANameThatIsBeingProcessedIsRefusedUnlessItQueues) {
  OneRank job;
  Owner first, second, third;
  for (int step = 0; step < 3; ++step) {  // by name, then by number
    const auto expected = static_cast<size_t>(step + 1);
    std::vector<OperationRef> operations = {job.sum("a", 3, first), job.sum("a", 3, second),
                                            job.sum("a", 4, third, /*queues=*/true)};
    job.job().submit(std::move(operations));
    EXPECT_TRUE(first.wait_for(expected).empty());
    const auto errors = second.wait_for(expected);
    ASSERT_EQ(errors.size(), expected);
    EXPECT_HAS(errors.back(), "the tensor 'a' has the same name as another");
    EXPECT_TRUE(third.wait_for(expected).empty());
  }
}

TEST(Job, CallsByNumberAreDoneWhicheverIsReadyFirst) {
  constexpr size_t kCalls = 40;
  OneRank job;
  Owner owner;
  const uint64_t first = job.job().ordered_calls().number_calls(kCalls);
  EXPECT_EQ(job.job().ordered_calls().number_calls(1), first + kCalls);
  std::vector<OperationRef> all;
  for (size_t i = 0; i < kCalls; ++i) {
    // Equal names are not a mistake: the numbers distinguish the calls.
    all.push_back(job.sum("a", static_cast<int64_t>(1 + i % 5), owner));
    all.back()->number = first + (i * 7) % kCalls;
  }
  for (const OperationRef& operation : all) job.job().submit({operation});
  EXPECT_TRUE(owner.wait_for(kCalls).empty());
  for (const auto& o : all) {
    const auto* values = static_cast<const float*>(o->output->data());
    for (int64_t i = 0; i < o->output->size(); ++i) EXPECT_EQ(values[i], static_cast<float>(i));
  }
  const JobStats stats = job.job().stats();
  EXPECT_EQ(stats.tensors, kCalls);
  EXPECT_EQ(stats.cache_hits, 0u);
}

TEST(Job, ACallByNumberWithoutInputIsAnError) {
  OneRank job;
  Owner owner;
  const uint64_t number = job.job().ordered_calls().number_calls(1);
  auto failed = job.sum("a", 3, owner);
  Request request = failed->request();
  request.failure = "no input";
  failed->asked = make_ref<const SharedRequest>(std::move(request));
  failed->number = number;
  job.job().submit({failed});
  const auto errors = owner.wait_for(1);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0], "allreduce of 'a': rank 0 could not compute its tensor: no input");
}

TEST(Job, NumbersContinueWhenAGivenUpCallHasEnded) {
  OneRank job;
  Owner owner;
  const uint64_t number = job.job().ordered_calls().number_given_up_call({});
  std::atomic<uint64_t> next{0};
  std::thread caller([&] { next = job.job().ordered_calls().number_calls(1); });
  EXPECT_EQ(job.job().ordered_calls().number_calls(1, {.set = 1}), 1u);  // another channel
  EXPECT_EQ(next, 0u);
  auto failed = job.sum("a", 3, owner);
  Request request = failed->request();
  request.failure = "forward has failed";
  request.later = kGivenUp;
  failed->asked = make_ref<const SharedRequest>(std::move(request));
  failed->number = number;
  job.job().submit({failed});
  EXPECT_EQ(owner.wait_for(1).size(), 1u);
  caller.join();
  EXPECT_EQ(next, number + 1);
}

TEST(Job, WaitingForANumberEndsWithTheSession) {
  OneRank job;
  const uint64_t number = job.job().ordered_calls().number_given_up_call({});
  std::thread caller([&] { EXPECT_EQ(job.job().ordered_calls().number_calls(1), number + 1); });
  job.stop();
  caller.join();
}

TEST(Job, WhatComesAfterTheEndFails) {
  OneRank job;
  Owner before, after;
  job.job().submit({job.sum("a", 3, before), job.sum("b", 3, before)});
  EXPECT_TRUE(before.wait_for(2).empty());
  job.stop();
  EXPECT_TRUE(job.job().ended());
  job.job().submit({job.sum("a", 3, after), job.sum("b", 3, after)});
  const auto errors = after.wait_for(2);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_HAS(errors[0], "shut down by rank 0");
}

TEST(Job, ARankLeavesWhenNoOtherNeedsIt) {
  OneRank job;
  Owner before, after;
  job.job().submit({job.sum("a", 3, before)});
  EXPECT_TRUE(before.wait_for(1).empty());
  EXPECT_LT(job.job().idle_seconds(), 60);
  job.job().request_leave();
  for (int i = 0; i < 6000 && !job.job().ended(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(job.job().ended());
  EXPECT_FALSE(job.job().lost());
  job.job().submit({job.sum("a", 3, after)});
  const auto errors = after.wait_for(1);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_HAS(errors[0], "shut down by rank 0");
}

// Lets the thread that calls it run out of memory.
class StarvingOwner final : public OperationOwner {
 public:
  void notify(size_t, std::exception_ptr error) override {
    refuses_memory = true;
    std::lock_guard lock(mutex_);
    (error ? failed_ : done_) += 1;
    changed_.notify_all();
  }
  void wait_for(int done, int failed) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60),
                                  [&] { return done_ >= done && failed_ >= failed; }));
    EXPECT_EQ(done_, done);
    EXPECT_EQ(failed_, failed);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int done_ = 0, failed_ = 0;
};

TEST(Job, ThreadWithoutMemoryTellsAllOperations) {
  OneRank job;
  StarvingOwner owner;
  job.job().submit({job.sum("a", 3, owner)});
  owner.wait_for(1, 0);
  job.job().submit({job.sum("b", 3, owner)});
  owner.wait_for(1, 1);
  EXPECT_TRUE(job.job().lost());
  // This thread may still allocate memory.
  job.job().submit({job.sum("c", 3, owner)});
  owner.wait_for(1, 2);
  refuses_memory = false;
}

}  // namespace
}  // namespace mxlite::jobs
