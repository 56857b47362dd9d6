// Tests the order of tasks, inline tasks, waits, and the errors of waits that would never end.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "cpp/engine/written.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr PushOptions kInline{.may_inline = true};
constexpr PushOptions kComm{.worker = WorkerKind::kComm};

TEST(EngineInline, RunsInTheCallerWhenNothingStandsInTheWay) {
  ThreadedEngine engine;
  Var x;
  std::thread::id runner;
  push(engine, kInline, {}, {&x}, {}, [&] { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());
  push(engine, {}, {&x}, {}, [&] { runner = std::this_thread::get_id(); });
  engine.wait(x);
  EXPECT_NE(runner, std::this_thread::get_id());
  EXPECT_EQ(engine.stats().pushed, 2u);
  EXPECT_EQ(engine.stats().run_by_caller, 1u);
}

TEST(EngineWritten, SaysWhetherTheLastWriteIsDone) {
  ThreadedEngine engine;
  Var x, y;
  Var* const both[] = {&x, &y};
  EXPECT_TRUE(are_written(engine, both));
  Gate gate;
  push(engine, {&y}, {&x}, {}, [&] {
    gate.pass();
    throw Error(ErrorKind::kValue, "failed");
  });
  EXPECT_FALSE(are_written(engine, both));
  EXPECT_TRUE(are_written(engine, {both + 1, 1}));  // it is only read
  gate.open();
  engine.drain();
  EXPECT_TRUE(are_written(engine, both));
}

TEST(EngineInline, IsQueuedBehindABusyWorkerOrAnUnmetDependency) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate cpu, comm;
  push(engine, kComm, {}, {&y}, {}, [&] { comm.pass(); });
  // The cpu worker is idle, but the input has no value yet.
  push(engine, kInline, {&y}, {&z}, {}, [] {});
  EXPECT_EQ(engine.stats().run_by_caller, 0u);
  push(engine, {}, {&x}, {}, [&] { cpu.pass(); });
  Var w;
  push(engine, kInline, {}, {&w}, {}, [] {});  // no dependency, but the worker has work
  EXPECT_EQ(engine.stats().run_by_caller, 0u);
  EXPECT_EQ(engine.stats().in_flight, 4u);
  cpu.open();
  comm.open();
  engine.wait_all();
  EXPECT_EQ(engine.stats().in_flight, 0u);
}

TEST(EngineComm, GoesOnAfterATaskThatAnotherThreadRanInline) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate started, gate;
  std::vector<int> order;
  std::thread caller([&] {
    push(engine, {.worker = WorkerKind::kComm, .may_inline = true}, {}, {&x}, {}, [&] {
      started.open();
      gate.pass();
      order.push_back(1);
    });
  });
  started.pass();
  push(engine, kComm, {}, {&y}, {}, [&] { order.push_back(2); });
  for (int i = 0; i < 100; ++i) {  // time for the comm worker to find that it may not run this yet
    push(engine, {}, {&z}, {}, [] {});
    engine.wait(z);
  }
  gate.open();
  engine.wait(y);
  caller.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(engine.stats().run_by_caller, 1u);
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

TEST(EngineWait, OperandsAreReleasedBeforeWaitReturns) {
  for (const PushOptions& options : {PushOptions{}, kInline}) {
    ThreadedEngine engine;
    Var x;
    auto operand = std::make_shared<int>(3);
    push(engine, options, {}, {&x}, {}, [operand] {});
    engine.wait(x);
    EXPECT_EQ(operand.use_count(), 1);
    push(engine, options, {}, {&x}, {}, failing("bad"));
    push(engine, options, {}, {}, {&x}, [operand] { FAIL() << "must not run"; });
    error_of([&] { engine.wait(x); });
    EXPECT_EQ(operand.use_count(), 1) << "a task that is skipped releases its operands as well";
  }
}

// A task keeps its variable alive, and the variable keeps its last task alive. No cycle may remain.
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
  push(engine, "outer", options, {}, {&x}, {}, [&] {
    by_wait = error_of([&] { engine.wait(x); });
    by_write = error_of([&] { engine.wait_for_write(x); });
    by_all = error_of([&] { engine.wait_all(); });
  });
  engine.wait(x);
  for (const std::string& text : {by_wait, by_write, by_all})
    EXPECT_HAS(text, "wait: task outer waits for task outer");
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
  push(engine, "outer", {}, {}, {&x}, {}, [&] {
    push(engine, "inner", {}, {}, {&y}, {}, [] {});
    push(engine, "comm", kComm, {&y}, {&z}, {}, [] {});
    queued = error_of([&] { engine.wait(y); });
    through_comm = error_of([&] { engine.wait(z); });
  });
  engine.wait_all();
  EXPECT_HAS(queued, "waits for task inner");
  EXPECT_HAS(through_comm, "waits for task comm");
}

TEST(EngineWait, InsideATaskForWhatIsQueuedBehindItsDependentIsAnError) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate pushed;
  std::string text;
  push(engine, "outer", {}, {}, {&x}, {}, [&] {
    pushed.pass();
    text = error_of([&] { engine.wait(z); });
  });
  push(engine, "dependent", kComm, {&x}, {&y}, {}, [] {});
  push(engine, "behind", kComm, {}, {&z}, {}, [] {});
  pushed.open();
  engine.wait_all();
  EXPECT_HAS(text, "waits for task behind");
}

TEST(EngineWait, InsideATaskForAnotherWorkerIsFine) {
  ThreadedEngine engine;
  Var x, y;
  int value = 0;
  push(engine, kComm, {}, {&x}, {}, [&] {
    push(engine, {}, {&y}, {}, [&] { value = 4; });
    engine.wait(y);
    value *= 10;
  });
  engine.wait(x);
  EXPECT_EQ(value, 40);
}

TEST(EngineNaive, ATaskMayPushButNotWhatWouldWaitForItself) {
  NaiveEngine engine;
  Var x, y;
  int value = 0;
  std::string text;
  push(engine, "outer", {}, {}, {&x}, {}, [&] {
    push(engine, {}, {&y}, {}, [&] { value = 4; });
    text = error_of([&] { push(engine, "inner", {}, {&x}, {&y}, {}, [&] { value = 5; }); });
  });
  EXPECT_EQ(value, 4);
  EXPECT_HAS(text, "task outer waits for task outer");
}

TEST(EngineNaive, ThreadsWaitForEachOthersTasks) {
  NaiveEngine engine;
  Var x;
  uint64_t value = 0;  // guarded by the engine's order
  std::thread threads[3];
  for (std::thread& t : threads)
    t = std::thread([&] {
      for (int i = 0; i < 500; ++i)
        push(engine, i % 3 ? PushOptions{} : kComm, {}, {}, {&x}, [&] { ++value; });
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(value, 1500u);
}

}  // namespace
}  // namespace mxlite::engine
