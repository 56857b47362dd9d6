// Tests tasks of the callback worker. Unlike all other tasks, they may wait for other workers.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr PushOptions kCallback{.worker = WorkerKind::kCallback};

// Acts like an operator written in Python, which reads and writes through variables of its own.
template <class EngineType>
void run_nested_work(EngineType& engine, int value, int& result) {
  Var inner;
  int doubled = 0;
  push(engine, {}, {&inner}, {}, [&] { doubled = 2 * value; });
  engine.wait(inner);
  push(engine, {}, {}, {&inner}, [&] { ++doubled; });
  engine.wait(inner);
  result = doubled;
}

TEST(EngineCallback, DoesTheSameInTheCallerOnTheNaiveEngine) {
  NaiveEngine engine;
  Var y;
  int result = 0;
  push(engine, kCallback, {}, {&y}, {}, [&] { run_nested_work(engine, 1, result); });
  EXPECT_EQ(result, 3);
}

TEST(EngineCallback, DoesNotBlockTheCpuWorkerWhileItWaits) {
  ThreadedEngine engine;
  Var x, y;
  Gate gate;
  bool ran = false;
  push(engine, kCallback, {}, {&y}, {}, [&] { gate.pass(); });
  push(engine, {}, {&x}, {}, [&] { ran = true; });
  engine.wait(x);
  EXPECT_TRUE(ran);
  gate.open();
  engine.wait_all();
}

TEST(EngineCallback, WaitingForALaterCallbackIsAnErrorAndNoDeadlock) {
  ThreadedEngine engine;
  Var y, later;
  Gate gate;
  push(engine, kCallback, {}, {&y}, {}, [&] {
    gate.pass();
    engine.wait(later);
  });
  push(engine, kCallback, {}, {&later}, {}, [] {});
  gate.open();
  EXPECT_THROW(engine.wait(y), Error);
  engine.wait(later);
}

TEST(EngineCallback, ManyThreadsPushCallbacksThatPushTasks) {
  ThreadedEngine engine;
  std::atomic<int> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Var y;
        int result = 0;
        push(engine, kCallback, {}, {&y}, {}, [&] { run_nested_work(engine, i, result); });
        engine.wait(y);
        total += result;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total, 4 * (2 * 49 * 50 / 2 + 50));
}

}  // namespace
}  // namespace mxlite::engine
