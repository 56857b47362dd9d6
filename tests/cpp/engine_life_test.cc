// Tests limits, hooks, the memory of tasks, and the ends of engines and workers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr PushOptions kInline{.may_inline = true};
constexpr PushOptions kComm{.worker = WorkerKind::kComm};

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
    push(engine, {.bytes = i % 2 ? 400u : 0u}, {}, {&x}, {}, [] {});
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
  for (int i = 0; i < 5; ++i) push(engine, {.bytes = 5000}, {}, {&x}, {}, [] {});
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
  EXPECT_HAS(text, "MXLITE_ENGINE_MAX_TASKS must be a positive number, got 0");
}

std::atomic<int> hooks_depth, hooks_calls;

TEST(EngineHooks, AreCalledInPairsAroundWhatBlocksAndNotOtherwise) {
  hooks_depth = hooks_calls = 0;
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
    push(engine, kInline, {}, {&x}, {}, [] {});
    engine.wait(x);
    engine.wait_all();
    EXPECT_EQ(hooks_calls, 0) << "nothing blocked";
    Gate gate;
    push(engine, {}, {&x}, {}, [&] { gate.pass(); });
    std::thread opener([&] {
      while (hooks_depth == 0) std::this_thread::yield();  // the wait below has released the GIL
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

TEST(EngineHooks, TakingTheGilBackMayNeedTheEngine) {
  static ThreadedEngine* used;
  ThreadedEngine engine;
  used = &engine;
  set_blocking_hooks([]() -> void* { return nullptr; },
                     [](void*) {
                       // This stands for another thread that holds the GIL and pushes.
                       std::thread([] { EXPECT_GT(used->stats().pushed, 0u); }).join();
                     });
  Var x;
  Gate gate;
  push(engine, {}, {&x}, {}, [&] { gate.pass(); });
  std::thread opener([&] { gate.open(); });
  engine.wait(x);
  opener.join();
  set_blocking_hooks(nullptr, nullptr);
}

TEST(EngineHooks, LargeTasksOfTheNaiveEngineRunWithoutTheGil) {
  static int held;
  held = 1;
  set_blocking_hooks([]() -> void* { return --held, nullptr; }, [](void*) { ++held; });
  NaiveEngine engine;
  Var x;
  int held_in_large = -1, held_in_small = -1;
  push(engine, {}, {&x}, {}, [&] { held_in_large = held; });
  push(engine, kInline, {}, {&x}, {}, [&] { held_in_small = held; });
  set_blocking_hooks(nullptr, nullptr);
  EXPECT_EQ(held_in_large, 0);
  EXPECT_EQ(held_in_small, 1);
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
      push(engine, i % 2 ? kComm : PushOptions{}, {}, {}, {&x}, [&] { ++count; });
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
    push(*engine, kComm, {&x}, {}, {}, [] {});
    if (i % 2) engine->wait(x);
    engine.reset();
  }
}

class Counted final : public Task {
 public:
  Counted() : Task("counted") { ++alive; }
  ~Counted() override { --alive; }
  void run() override {}
  void release_operands() noexcept override {}
  static inline std::atomic<int> alive = 0;
};

TEST(EngineMemory, FinishedTasksAreDestroyedWhileTheirVariablesLive) {
  for (const bool may_inline : {false, true}) {
    ThreadedEngine engine;
    Var weight, output;
    Var* reads[] = {&weight};
    Var* writes[] = {&output};
    for (int i = 0; i < 1000; ++i) {
      engine.push(make_ref<Counted>(), {reads, writes, {}}, {.may_inline = may_inline});
      if (i % 10 == 0) engine.wait(output);
    }
    engine.wait_all();
    EXPECT_LT(Counted::alive, 64) << "a weight must not remember all of its readers";
  }
  EXPECT_EQ(Counted::alive, 0);
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
