// Tests fork() while the engine's threads run, and the choice of a process's engine.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>

#include "cpp/engine/naive_engine.h"
#include "cpp/engine/running_task.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

// Runs body in a forked child and returns the exit status: 99 if it threw, -1 if it hung or was
// killed.
template <class F>
int run_in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    int status = 99;
    try {
      status = body();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "child: %s\n", e.what());
    }
    std::fflush(stderr);
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(EngineFork, WhatWasInFlightFailsInTheChildAndEndsInTheParent) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate gate;
  bool done = false;
  push(engine, {}, {&x}, {}, [&] { gate.pass(); });
  push(engine, {&x}, {&y}, {}, [&] { done = true; });
  push(engine, {.worker = WorkerKind::kComm}, {&z}, {}, {}, [&] { gate.pass(); });
  const int result = run_in_child([&] {
    for (Var* v : {&x, &y})
      if (error_of([&] { engine.wait(*v); }).find("forked before") == std::string::npos) return 1;
    engine.wait_for_write(z);  // its reader exists only in the parent
    engine.wait_all();         // no failure in this process
    if (error_of([&] { push(engine, {&y}, {&z}, {}, [] {}); }).empty()) return 2;
    push(engine, {}, {&y}, {}, [] {});
    engine.wait(y);
    return engine.stats().in_flight == 0 ? 0 : 3;
  });
  EXPECT_EQ(result, 0);
  gate.open();
  engine.wait(y);
  EXPECT_TRUE(done);
}

TEST(EngineFork, LocksOfRunningTasksAreFreeInTheChild) {
  ThreadedEngine engine;
  Var x;
  std::mutex mutex;
  Gate locked;
  push(engine, {}, {&x}, {}, [&] {
    std::lock_guard lock(mutex);
    locked.open();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  locked.pass();
  EXPECT_EQ(run_in_child([&] { return mutex.try_lock() ? 0 : 1; }), 0);
  engine.wait(x);
}

TEST(EngineFork, TasksThatWaitForPythonAreNotWaitedFor) {
  ThreadedEngine engine;
  Var x;
  Gate began, gate;
  push(engine, {}, {&x}, {}, [&] {
    const UncountedTasks uncounted;
    began.open();
    gate.pass();
  });
  began.pass();
  hold_tasks(std::numeric_limits<int>::max());  // returns at once
  release_tasks();
  gate.open();
  engine.wait(x);
}

TEST(EngineFork, AChildForkedWhileTasksStreamNeverHangs) {
  ThreadedEngine engine;
  Var x, y;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 200; ++k)
      push(engine, k % 5 ? PushOptions{} : PushOptions{.may_inline = true}, {&x}, {}, {&y}, [] {});
    EXPECT_EQ(run_in_child([&] {
                push(engine, {&x}, {&y}, {}, [] {});
                engine.wait(y);
                return 5;
              }),
              5);
  }
  engine.wait_all();
}

TEST(EngineFork, InsideAnInlineTaskTheChildEndsThatTask) {
  ThreadedEngine engine;
  Var x, y;
  Gate gate;
  pid_t child = -1;
  const pid_t parent = ::getpid();
  push(engine, {.worker = WorkerKind::kComm}, {}, {&y}, {}, [&] { gate.pass(); });
  push(engine, {.may_inline = true}, {}, {&x}, {}, [&] { child = ::fork(); });
  if (::getpid() != parent) {
    ::alarm(60);
    int status = 1;
    try {
      engine.wait(x);
      push(engine, {}, {}, {&x}, [&] { status = 0; });
      engine.wait_all();
    } catch (const std::exception&) {
      status = 2;
    }
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  gate.open();
  engine.wait_all();
}

// Runs in children of this process, which itself never calls Engine::get. So each child makes its
// own choice.
int kind_with(const char* variable, const char* value) {
  return run_in_child([&] {
    ::unsetenv("MXLITE_ENGINE");
    ::unsetenv("MXNET_ENGINE_TYPE");
    if (variable) ::setenv(variable, value, 1);
    try {
      Engine& engine = Engine::get();
      return dynamic_cast<NaiveEngine*>(&engine) ? 1 : 2;
    } catch (const Error& e) {
      const std::string text = e.what();
      return text.find(variable) != std::string::npos && text.find(value) != std::string::npos ? 3
                                                                                               : 4;
    }
  });
}

TEST(EngineChoice, FollowsTheEnvironment) {
  EXPECT_EQ(kind_with(nullptr, ""), 2);
  EXPECT_EQ(kind_with("MXLITE_ENGINE", "naive"), 1);
  EXPECT_EQ(kind_with("MXLITE_ENGINE", "threaded"), 2);
  EXPECT_EQ(kind_with("MXLITE_ENGINE", "fast"), 3);
  EXPECT_EQ(kind_with("MXNET_ENGINE_TYPE", "NaiveEngine"), 1);
  EXPECT_EQ(kind_with("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"), 2);
  EXPECT_EQ(kind_with("MXNET_ENGINE_TYPE", "ThreadedEngine"), 2);
  EXPECT_EQ(kind_with("MXNET_ENGINE_TYPE", "Naive"), 3);
}

TEST(EngineChoice, AProcessMayEndWithWorkQueuedAndWithoutStop) {
  const int result = run_in_child([] {
    Engine& engine = Engine::get();
    static Var x;  // destroyed at exit
    for (int i = 0; i < 100; ++i) push(engine, {}, {}, {&x}, [] {});
    std::exit(17);
    return 0;
  });
  EXPECT_EQ(result, 17);
}

}  // namespace
}  // namespace mxlite::engine
