// Order, inline tasks, waits, limits, the ends of engines and workers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cpp/core/profile_hooks.h"
#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr PushOptions kInline{.may_inline = true};
constexpr PushOptions kComm{.worker = WorkerKind::kComm};

TEST(EngineInline, RunsInTheCallerWhenNothingStandsInTheWay) {
  ThreadedEngine engine;
  Var x;
  std::thread::id runner;
  push(
      engine, {}, {&x}, {}, [&] { runner = std::this_thread::get_id(); }, kInline);
  EXPECT_EQ(runner, std::this_thread::get_id());
  push(engine, {}, {&x}, {}, [&] { runner = std::this_thread::get_id(); });
  engine.wait(x);
  EXPECT_NE(runner, std::this_thread::get_id());
  EXPECT_EQ(engine.stats().pushed, 2u);
  EXPECT_EQ(engine.stats().run_by_caller, 1u);
}

TEST(EngineInline, IsQueuedBehindABusyWorkerOrAnUnmetDependency) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate cpu, comm;
  push(
      engine, {}, {&y}, {}, [&] { comm.pass(); }, kComm);
  push(
      engine, {&y}, {&z}, {}, [] {}, kInline);  // the cpu worker is idle, its input is not there
  EXPECT_EQ(engine.stats().run_by_caller, 0u);
  push(engine, {}, {&x}, {}, [&] { cpu.pass(); });
  Var w;
  push(
      engine, {}, {&w}, {}, [] {}, kInline);  // no dependency, but the worker has work
  EXPECT_EQ(engine.stats().run_by_caller, 0u);
  EXPECT_EQ(engine.stats().in_flight, 4u);
  cpu.open();
  comm.open();
  engine.wait_all();
  EXPECT_EQ(engine.stats().in_flight, 0u);
}

TEST(EngineComm, WaitsForTheOldestEvenIfALaterOneIsReady) {
  ThreadedEngine engine;
  Var x, a, b;
  Gate gate;
  std::vector<int> order;
  push(engine, {}, {&x}, {}, [&] { gate.pass(); });
  push(
      engine, {&x}, {&a}, {}, [&] { order.push_back(1); }, kComm);
  push(
      engine, {}, {&b}, {}, [&] { order.push_back(2); }, kComm);
  push(engine, {}, {&b}, {}, [&] { order.push_back(3); },
       {.worker = WorkerKind::kComm, .may_inline = true});
  gate.open();
  engine.wait_all();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(EngineWait, ForWriteWaitsForReadersAndWaitDoesNot) {
  ThreadedEngine engine;
  Var x, y;
  Gate gate;
  std::atomic<bool> read = false;
  push(engine, {&x}, {&y}, {}, [&] {
    gate.pass();
    read = true;
  });
  engine.wait(x);
  EXPECT_FALSE(read);
  gate.open();
  engine.wait_for_write(x);
  EXPECT_TRUE(read);
}

TEST(EngineWait, VersionGrowsOncePerPushThatWrites) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, {&x}, {&y, &y}, {&y}, [] {});
  EXPECT_EQ(x.version(), 0u);
  EXPECT_EQ(y.version(), 1u);
  push(
      engine, {}, {}, {&y}, [] {}, kInline);
  EXPECT_EQ(y.version(), 2u);
}

TEST(EngineWait, OperandsAreReleasedBeforeWaitReturns) {
  for (const PushOptions& options : {PushOptions{}, kInline}) {
    ThreadedEngine engine;
    Var x;
    auto operand = std::make_shared<int>(3);
    push(
        engine, {}, {&x}, {}, [operand] {}, options);
    engine.wait(x);
    EXPECT_EQ(operand.use_count(), 1);
    push(engine, {}, {&x}, {}, failing("bad"), options);
    push(
        engine, {}, {}, {&x}, [operand] { FAIL() << "must not run"; }, options);
    error_of([&] { engine.wait(x); });
    EXPECT_EQ(operand.use_count(), 1) << "a task that is skipped lets go as well";
  }
}

// A task keeps its variable alive, the variable knows its last task: no cycle may remain.
TEST(EngineWait, AVariableOwnedByItsTaskIsFreed) {
  ThreadedEngine engine;
  auto var = std::make_shared<Var>();
  std::weak_ptr<Var> watch = var;
  push(engine, {}, {var.get()}, {}, [var] {});
  engine.wait(*var);
  var.reset();
  EXPECT_TRUE(watch.expired());
}

void expect_error_instead_of_deadlock(Engine& engine, const PushOptions& options) {
  Var x, y;
  std::string by_wait, by_write, by_all;
  push(
      engine, {}, {&x}, {},
      [&] {
        by_wait = error_of([&] { engine.wait(x); });
        by_write = error_of([&] { engine.wait_for_write(x); });
        by_all = error_of([&] { engine.wait_all(); });
      },
      options, "outer");
  engine.wait(x);
  for (const std::string& text : {by_wait, by_write, by_all})
    EXPECT_NE(text.find("wait: task outer waits for task outer"), std::string::npos) << text;
}

TEST(EngineWait, InsideATaskForItsOwnResultIsAnError) {
  ThreadedEngine threaded;
  NaiveEngine naive;
  expect_error_instead_of_deadlock(threaded, {});
  expect_error_instead_of_deadlock(threaded, kInline);
  expect_error_instead_of_deadlock(threaded, kComm);
  expect_error_instead_of_deadlock(naive, {});
}

TEST(EngineWait, InsideATaskForWorkOfTheSameWorkerIsAnError) {
  ThreadedEngine engine;
  Var x, y, z;
  std::string queued, through_comm;
  push(
      engine, {}, {&x}, {},
      [&] {
        push(
            engine, {}, {&y}, {}, [] {}, {}, "inner");
        push(
            engine, {&y}, {&z}, {}, [] {}, kComm, "comm");
        queued = error_of([&] { engine.wait(y); });
        through_comm = error_of([&] { engine.wait(z); });
      },
      {}, "outer");
  engine.wait_all();
  EXPECT_NE(queued.find("waits for task inner"), std::string::npos) << queued;
  EXPECT_NE(through_comm.find("waits for task comm"), std::string::npos) << through_comm;
}

TEST(EngineWait, InsideATaskForAnotherWorkerIsFine) {
  ThreadedEngine engine;
  Var x, y;
  int value = 0;
  push(
      engine, {}, {&x}, {},
      [&] {
        push(engine, {}, {&y}, {}, [&] { value = 4; });
        engine.wait(y);
        value *= 10;
      },
      kComm);
  engine.wait(x);
  EXPECT_EQ(value, 40);
}

TEST(EngineNaive, ATaskMayPushButNotWhatWouldWaitForItself) {
  NaiveEngine engine;
  Var x, y;
  int value = 0;
  std::string text;
  push(
      engine, {}, {&x}, {},
      [&] {
        push(engine, {}, {&y}, {}, [&] { value = 4; });
        text = error_of([&] {
          push(
              engine, {&x}, {&y}, {}, [&] { value = 5; }, {}, "inner");
        });
      },
      {}, "outer");
  EXPECT_EQ(value, 4);
  EXPECT_NE(text.find("task outer waits for task outer"), std::string::npos) << text;
}

TEST(EngineNaive, ThreadsWaitForEachOthersTasks) {
  NaiveEngine engine;
  Var x;
  uint64_t value = 0;  // guarded by the engine's order
  std::thread threads[3];
  for (std::thread& t : threads)
    t = std::thread([&] {
      for (int i = 0; i < 500; ++i)
        push(
            engine, {}, {}, {&x}, [&] { ++value; }, i % 3 ? PushOptions{} : kComm);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(value, 1500u);
}

class WithLimits {
 public:
  WithLimits(const char* tasks, const char* bytes) {
    ::setenv("MXLITE_ENGINE_MAX_TASKS", tasks, 1);
    ::setenv("MXLITE_ENGINE_MAX_BYTES", bytes, 1);
  }
  ~WithLimits() {
    ::unsetenv("MXLITE_ENGINE_MAX_TASKS");
    ::unsetenv("MXLITE_ENGINE_MAX_BYTES");
  }
};

TEST(EngineLimit, AFastLoopNeverHasMoreInFlightThanAllowed) {
  WithLimits limits("10", "1000");
  ThreadedEngine engine;
  Var x;
  uint64_t most_tasks = 0, most_bytes = 0;
  for (int i = 0; i < 3000; ++i) {
    push(engine, {}, {&x}, {}, [] {}, {.bytes = i % 2 ? 400u : 0u});
    const EngineStats stats = engine.stats();
    most_tasks = std::max(most_tasks, stats.in_flight);
    most_bytes = std::max(most_bytes, stats.bytes_in_flight);
  }
  engine.wait_all();
  EXPECT_LE(most_tasks, 10u);
  EXPECT_LE(most_bytes, 1000u);
}

TEST(EngineLimit, PushBlocksUntilTasksEnd) {
  WithLimits limits("4", "1000");
  ThreadedEngine engine;
  Var x;
  Gate gate;
  std::atomic<int> pushed = 0;
  std::thread pusher([&] {
    for (int i = 0; i < 20; ++i, ++pushed) push(engine, {}, {&x}, {}, [&] { gate.pass(); });
  });
  while (pushed < 4) std::this_thread::yield();
  std::this_thread::yield();
  EXPECT_EQ(pushed, 4) << "the fifth must block";
  gate.open();
  pusher.join();
  engine.wait_all();
  EXPECT_EQ(pushed, 20);
}

TEST(EngineLimit, ATaskLargerThanTheLimitRunsAlone) {
  WithLimits limits("10", "1000");
  ThreadedEngine engine;
  Var x;
  for (int i = 0; i < 5; ++i) push(engine, {}, {&x}, {}, [] {}, {.bytes = 5000});
  engine.wait_all();
}

TEST(EngineLimit, ATaskThatPushesIsNeverBlocked) {
  WithLimits limits("2", "1000");
  ThreadedEngine engine;
  Var x, y;
  int count = 0;
  push(engine, {}, {&x}, {}, [&] {
    for (int i = 0; i < 50; ++i) push(engine, {}, {}, {&y}, [&] { ++count; });
  });
  engine.wait_all();
  EXPECT_EQ(count, 50);
}

TEST(EngineLimit, NonsenseInTheEnvironmentIsNamed) {
  WithLimits limits("0", "1000");
  const std::string text = error_of([] { ThreadedEngine engine; });
  EXPECT_NE(text.find("MXLITE_ENGINE_MAX_TASKS=0"), std::string::npos) << text;
}

std::atomic<int> hooks_depth, hooks_calls;

TEST(EngineHooks, AreCalledInPairsAroundWhatBlocksAndNotOtherwise) {
  set_blocking_hooks(
      []() -> void* {
        ++hooks_depth, ++hooks_calls;
        return &hooks_depth;
      },
      [](void* token) {
        EXPECT_EQ(token, &hooks_depth);
        --hooks_depth;
      });
  {
    ThreadedEngine engine;
    Var x;
    push(
        engine, {}, {&x}, {}, [] {}, kInline);
    engine.wait(x);
    engine.wait_all();
    EXPECT_EQ(hooks_calls, 0) << "nothing blocked";
    Gate gate;
    push(engine, {}, {&x}, {}, [&] { gate.pass(); });
    std::thread opener([&] {
      while (hooks_depth == 0) std::this_thread::yield();  // the wait below has let go
      gate.open();
    });
    engine.wait(x);
    opener.join();
    EXPECT_EQ(hooks_calls, 1);
    EXPECT_EQ(hooks_depth, 0);
  }
  EXPECT_EQ(hooks_depth, 0);
  set_blocking_hooks(nullptr, nullptr);
}

TEST(EngineStop, FinishesQueuedWorkAndLaterPushesRunInTheCaller) {
  ThreadedEngine engine;
  Var x;
  int count = 0;
  for (int i = 0; i < 100; ++i) push(engine, {}, {}, {&x}, [&] { ++count; });
  engine.stop();
  EXPECT_EQ(count, 100);
  EXPECT_TRUE(engine.runs_in_caller());
  engine.stop();
  push(engine, {}, {}, {&x}, [&] { ++count; });
  EXPECT_EQ(count, 101);
}

TEST(EngineStop, TasksThatPushWhileStoppingAreFinishedToo) {
  ThreadedEngine engine;
  Var x;
  Gate gate;
  int count = 0;
  push(engine, {}, {}, {&x}, [&] {
    gate.pass();
    for (int i = 0; i < 10; ++i)
      push(
          engine, {}, {}, {&x}, [&] { ++count; }, i % 2 ? kComm : PushOptions{});
  });
  std::thread stopper([&] { engine.stop(); });
  gate.open();
  stopper.join();
  EXPECT_EQ(count, 10);
}

// The last completion wakes this thread, which destroys the worker while that may still be inside
// its notification: the thread sanitizer found this order in an earlier engine.
TEST(EngineStop, AnEngineMayBeDestroyedRightAfterTheWait) {
  for (int i = 0; i < 300; ++i) {
    auto engine = std::make_unique<ThreadedEngine>();
    Var x;
    push(*engine, {}, {&x}, {}, [] {});
    push(
        *engine, {&x}, {}, {}, [] {}, kComm);
    if (i % 2) engine->wait(x);
    engine.reset();
  }
}

std::atomic<int> begun, ended;

TEST(EngineProfile, SeesEachTaskThatRunsInBothEngines) {
  static const ProfileListener listener{
      [](const char* name) { begun += std::string(name) == "dot"; },
      [](const char* name) { ended += std::string(name) == "dot"; }};
  profile_listener = &listener;
  ThreadedEngine threaded;
  NaiveEngine naive;
  Var x, y;
  push(
      threaded, {}, {&x}, {}, [] {}, {}, "dot");
  threaded.wait_all();
  push(
      threaded, {}, {&x}, {}, [] {}, kInline, "dot");
  push(
      naive, {}, {&y}, {}, [] {}, {}, "dot");
  error_of([&] { push(naive, {}, {&y}, {}, failing("x"), {}, "dot"); });
  profile_listener = nullptr;
  push(
      naive, {}, {&x}, {}, [] {}, {}, "dot");
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(ended, 4);
}

// Blocks return to the free list of whichever thread frees them.
TEST(EngineMemory, TasksOfManySizesFromManyThreads) {
  ThreadedEngine engine;
  std::thread threads[2];
  std::atomic<uint64_t> sum = 0;
  for (std::thread& t : threads)
    t = std::thread([&] {
      Var x;
      const auto push_size = [&](auto size) {
        std::array<char, decltype(size)::value> bulk;
        bulk.fill(1);
        push(engine, {}, {&x}, {}, [&sum, bulk] { sum += bulk.back(); });
      };
      for (int i = 0; i < 600; ++i) {
        push_size(std::integral_constant<size_t, 1>{});
        push_size(std::integral_constant<size_t, 300>{});
        push_size(std::integral_constant<size_t, 2000>{});
      }
      engine.wait(x);
    });
  for (std::thread& t : threads) t.join();
  engine.wait_all();
  EXPECT_EQ(sum, 3600u);
}

}  // namespace
}  // namespace mxlite::engine
