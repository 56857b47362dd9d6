// Tests tasks on fake streams: their dependencies, the release of operands, and which tasks a
// failure affects.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "cpp/core/launch_log.h"
#include "cpp/engine/freeing_stream.h"
#include "cpp/engine/mark.h"
#include "cpp/engine/naive_engine.h"
#include "cpp/engine/threaded_engine.h"
#include "tests/cpp/engine_test_util.h"
#include "tests/cpp/fake_stream.h"

namespace mxlite::engine {
namespace {

using Streams = std::array<std::array<std::unique_ptr<FakeStream>, kNumStreamKinds>, 2>;
Streams* streams = nullptr;

Stream& fake_source(int device, StreamKind kind) {
  return *(*streams)[static_cast<size_t>(device)][static_cast<size_t>(kind)];
}

class EngineStream : public testing::Test {
 protected:
  EngineStream() {
    for (size_t d = 0; d < streams_.size(); ++d)
      for (auto& s : streams_[d]) s = std::make_unique<FakeStream>(static_cast<int>(d));
    streams = &streams_;
    set_stream_source(&fake_source);
  }
  ~EngineStream() override { set_stream_source(nullptr); }

  Streams streams_;
};

// Runs `fn` on the device in the stream's order.
template <class F>
auto on_device(F fn) {
  return [fn] { static_cast<FakeStream*>(current_stream())->give(fn); };
}

constexpr PushOptions kCompute{.worker = WorkerKind::kCompute};
constexpr PushOptions kSecondGpu{.worker = WorkerKind::kCompute, .device = 1};
constexpr PushOptions kCopyIn{.worker = WorkerKind::kCopyIn};
constexpr PushOptions kCopyOut{.worker = WorkerKind::kCopyOut};

TEST_F(EngineStream, DependentsOnStreamsAreIssuedBeforeTheDeviceIsDone) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate device;
  std::atomic<int> issued = 0, value = 0;
  push(engine, kCompute, {}, {&x}, {}, [&] {
    ++issued;
    static_cast<FakeStream*>(current_stream())->give([&] { device.pass(), value = 1; });
  });
  for (const PushOptions& where : {kCompute, kCopyOut, kSecondGpu})
    push(engine, where, {&x}, {&y}, {}, [&] {
      ++issued;
      static_cast<FakeStream*>(current_stream())->give([&] { EXPECT_EQ(value, 1); });
    });
  while (issued < 4) std::this_thread::yield();
  EXPECT_EQ(value, 0);
  device.open();
  engine.wait_all();
  EXPECT_EQ(value, 1);
}

TEST_F(EngineStream, WhatFollowsAMarkedTaskDoesNotWaitForLaterWork) {
  ThreadedEngine engine;
  Var x, y, copy;
  Gate device;
  std::atomic<int> value = 0, copied = 0;
  push(engine, kCompute, {}, {&x}, {}, [&] {
    on_device([&] { value = 1; })();
    mark_end_of_task();
  });
  push(engine, kCompute, {}, {&y}, {}, on_device([&] { device.pass(), value = 2; }));
  while (streams_[0][0]->given() < 2) std::this_thread::yield();
  push(engine, kCopyOut, {&x}, {&copy}, {}, on_device([&] { copied = value.load(); }));
  auto waits = std::async(std::launch::async, [&] { engine.wait(x), engine.wait(copy); });
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(copied, 1);
  device.open();
  engine.wait_all();
  EXPECT_EQ(value, 2);
}

TEST_F(EngineStream, AFailureBeforeAMarkReachesTheMarkedTask) {
  ThreadedEngine engine;
  Var x;
  push(engine, kCompute, {}, {&x}, {}, [&] {
    static_cast<FakeStream*>(current_stream())->break_with("illegal address");
    mark_end_of_task();
  });
  EXPECT_THROW(engine.wait(x), Error);
}

TEST_F(EngineStream, ACopyMayNotOverwriteMemoryThatAStreamStillUses) {
  ThreadedEngine engine;
  Var old_use, fresh;
  Gate device;
  std::atomic<int> memory = 1, read = 0;
  // The compute stream still reads memory that has been freed and allocated again in its order.
  push(engine, kCompute, {}, {&old_use}, {},
       on_device([&] { device.pass(), read = memory.load(); }));
  while (streams_[0][0]->given() == 0) std::this_thread::yield();
  engine.allocated_on(fresh, WorkerKind::kCompute, 0);
  push(engine, kCopyIn, {}, {&fresh}, {}, on_device([&] { memory = 2; }));
  while (streams_[0][1]->given() < 2) std::this_thread::yield();
  device.open();
  engine.wait_all();
  EXPECT_EQ(read, 1);
  EXPECT_EQ(memory, 2);
}

// A free that overtakes the allocation would give away memory that is not there yet.
TEST_F(EngineStream, MemoryIsFreedInAnOrderThatBeginsWithItsAllocation) {
  ThreadedEngine engine;
  Var unused, used, other, late, computed;
  engine.allocated_on(computed, WorkerKind::kCompute, 0);
  for (Var* v : {&unused, &used, &other}) engine.allocated_on(*v, WorkerKind::kCopyIn, 0);
  EXPECT_EQ(freeing_stream(computed), StreamKind::kCompute);
  EXPECT_EQ(freeing_stream(unused), StreamKind::kCopyIn);
  // These tasks are done before their arrays are released.
  for (const PushOptions& where : {kCopyIn, kCopyOut, kSecondGpu, PushOptions{}})
    push(engine, where, {}, {&other}, {}, [] {});
  engine.wait_all();
  EXPECT_EQ(freeing_stream(other), StreamKind::kCopyIn);
  push(engine, kCompute, {}, {&used}, {}, on_device([] {}));
  engine.wait_all();
  EXPECT_EQ(freeing_stream(used), StreamKind::kCompute);
  engine.allocated_on(late, WorkerKind::kCopyIn, 0);
  EXPECT_EQ(freeing_stream(late), StreamKind::kCopyIn);
  push(engine, kCompute, {}, {}, {&late}, failing("after its stream has waited"));
  EXPECT_NE(error_of([&] { engine.wait_all(); }), "");
  EXPECT_EQ(freeing_stream(late), StreamKind::kCompute);
}

TEST_F(EngineStream, AStreamWaitsOnceForWhatItHasWaitedFor) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, kCopyIn, {}, {&x}, {}, on_device([] {}));
  for (int i = 0; i < 10; ++i) push(engine, kCompute, {&x}, {}, {&y}, on_device([] {}));
  engine.wait_all();
  EXPECT_LE(streams_[0][0]->given(), 11u);
}

TEST_F(EngineStream, OperandsGoAtIssueForKernelsAndAtTheEndForCopies) {
  ThreadedEngine engine;
  Var x, y, z;
  Gate device;
  auto kernels = std::make_shared<int>(), copies = std::make_shared<int>(),
       foreign = std::make_shared<int>();
  push(engine, kCopyIn, {}, {&x}, {}, on_device([&] { device.pass(); }));
  const auto hold = [](std::shared_ptr<int> operand) { return [operand] {}; };
  push(engine, kCompute, {&x}, {&y}, {}, hold(kernels));
  push(engine, kCopyOut, {&x}, {&z}, {}, hold(copies));
  push(engine, {.worker = WorkerKind::kCompute, .keep_operands = true}, {&x}, {}, {&y},
       hold(foreign));
  while (kernels.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(copies.use_count(), 2);
  EXPECT_EQ(foreign.use_count(), 2);
  device.open();
  engine.wait_all();
  EXPECT_EQ(copies.use_count(), 1);
  EXPECT_EQ(foreign.use_count(), 1);
}

TEST_F(EngineStream, AFailureOfTheDeviceReachesHostTasksAndWaits) {
  ThreadedEngine engine;
  Var x, y, z;
  std::atomic<int> ran = 0;
  push(engine, "softmax", kCompute, {}, {&x}, {}, [&] {
    auto* stream = static_cast<FakeStream*>(current_stream());
    stream->give([stream] { stream->break_with("illegal address"); });
  });
  push(engine, kCopyOut, {&x}, {&y}, {}, on_device([] {}));
  push(engine, {&y}, {&z}, {}, [&] { ++ran; });
  const std::string error = error_of([&] { engine.wait(z); });
  EXPECT_HAS(error, "illegal address");
  EXPECT_HAS(error, "softmax");
  EXPECT_EQ(ran, 0);
  EXPECT_NE(error_of([&] { engine.wait(x); }), "");
}

// Runs first, so that the tasks after it are on the device when it fails.
auto breaks_after(Gate& gate) {
  return [&gate] {
    auto* stream = static_cast<FakeStream*>(current_stream());
    stream->give([stream, &gate] {
      gate.pass();
      stream->break_with("illegal address");
    });
  };
}

TEST_F(EngineStream, ABrokenDeviceNamesWhatRanAndRefusesTheRest) {
  ThreadedEngine engine;
  Var x, y, z, later, other;
  Gate gate;
  std::atomic<int> issued = 0, ran = 0;
  const auto counted = on_device([] {});
  push(engine, "softmax", kCompute, {}, {&x}, {}, breaks_after(gate));
  push(engine, "relu", kCompute, {}, {&y}, {}, [&] { counted(), ++issued; });
  push(engine, "copy", kCopyOut, {}, {&z}, {}, [&] { counted(), ++issued; });
  while (issued < 2) std::this_thread::yield();
  gate.open();
  const std::string error = error_of([&] { engine.wait(x); });
  EXPECT_HAS(error, "illegal address");
  EXPECT_HAS(error, "softmax");
  EXPECT_HAS(error, "gpu(0) takes no more work of this process");
  const auto bump = [&] { ++ran; };
  push(engine, "dot", kCompute, {}, {&later}, {}, bump);
  const std::string refused = error_of([&] { engine.wait(later); });
  EXPECT_EQ(refused, error);
  EXPECT_EQ(ran, 0);
  push(engine, kSecondGpu, {}, {&other}, {}, bump);
  EXPECT_EQ(error_of([&] { engine.wait(other); }), "");  // other devices continue
  EXPECT_EQ(ran, 1);
}

// Pushes a task with a line of the user's program.
template <class F>
TaskRef task_from(const char* name, int line, F fn) {
  auto task = make_ref<LambdaTask<F>>(name, std::move(fn));
  task->origin = {"train.py", line};
  return task;
}

TEST_F(EngineStream, AnErrorThatALaterLaunchReportsNamesKernelsAndLinesOfEarlierTasks) {
  ThreadedEngine engine;
  Var x, y;
  Gate gate;
  Var* const x_list[] = {&x};
  Var* const y_list[] = {&y};
  engine.push(task_from("softmax", 12,
                        [&] {
                          set_launching_operator("softmax");
                          note_launch("forward_rows");
                          note_launch("forward_rows");
                          breaks_after(gate)();
                        }),
              {{}, x_list, {}}, kCompute);
  engine.push(task_from("dot", 13,
                        [&] {
                          note_launch("multiply");
                          gate.open();
                          current_stream()->synchronize();  // throws, as a launch would
                        }),
              {{}, y_list, {}}, kCompute);
  const std::string error = error_of([&] { engine.wait(y); });
  EXPECT_HAS(error, "illegal address");
  EXPECT_HAS(error, "1. softmax, called at train.py:12; its kernels: forward_rows of softmax\n");
  EXPECT_HAS(error, "2. dot, called at train.py:13; its kernels: multiply\n");
  EXPECT_HAS(error, "takes no more work");
  EXPECT_EQ(error_of([&] { engine.wait(x); }), error);
}

TEST_F(EngineStream, AnErrorOfALaunchAloneLeavesTheDeviceUsable) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, "relu", kCompute, {}, {&x}, {},
       [] { throw Error(ErrorKind::kDevice, "too many threads asked for"); });
  const std::string error = error_of([&] { engine.wait(x); });
  EXPECT_HAS(error, "while running relu");
  EXPECT_EQ(error.find("takes no more work"), std::string::npos) << error;
  push(engine, kCompute, {}, {&y}, {}, on_device([] {}));
  EXPECT_EQ(error_of([&] { engine.wait(y); }), "");
}

TEST(LaunchLog, NamesOfKernelsAreThoseOfTheSource) {
  EXPECT_EQ(short_kernel_name("_ZN6mxlite4cuda12forward_rowsIfEEvPf"), "forward_rows");
  EXPECT_EQ(short_kernel_name("_ZN6mxlite4cuda12_GLOBAL__N_14poolIfLi1EEEvlPKvPv"), "pool");
  EXPECT_EQ(short_kernel_name("sm90_xmma_fprop_implicit_gemm"), "sm90_xmma_fprop_implicit_gemm");
  EXPECT_EQ(short_kernel_name(std::string(300, 'k').c_str()).size(), 80u);
}

TEST(LaunchLog, ALongLogKeepsTheLastKernels) {
  const LaunchScope old(1);
  note_launch("old");
  {
    const LaunchScope next(2);
    for (int i = 0; i < 10000; ++i) note_launch("new");
  }
  EXPECT_EQ(kernels_of_task(1), "");
  EXPECT_EQ(kernels_of_task(2), "new");
  note_launch("again");  // this is a launch of the outer task
  EXPECT_EQ(kernels_of_task(1), "again");
}

TEST_F(EngineStream, TheNaiveEngineNamesTheOneTaskThatBrokeTheDevice) {
  NaiveEngine engine;
  Var x, y, later;
  Gate gate;
  gate.open();
  push(engine, "relu", kCompute, {}, {&x}, {}, on_device([] {}));
  const std::string error =
      error_of([&] { push(engine, "softmax", kCompute, {}, {&y}, {}, breaks_after(gate)); });
  EXPECT_HAS(error, "while running softmax");
  EXPECT_EQ(error.find("relu"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { push(engine, "dot", kCompute, {}, {&later}, {}, on_device([] {})); }),
            error);
  EXPECT_EQ(error_of([&] { engine.wait(x); }), "");
}

TEST_F(EngineStream, MemoryInFlightCountsUntilIssueOnly) {
  ::setenv("MXLITE_ENGINE_MAX_BYTES", "1000", 1);
  ThreadedEngine engine;
  ::unsetenv("MXLITE_ENGINE_MAX_BYTES");
  Var x;
  Gate device;
  push(engine, kCompute, {}, {&x}, {}, on_device([&] { device.pass(); }));
  PushOptions large = kCompute;
  large.bytes = 900;
  for (int i = 0; i < 5; ++i) push(engine, large, {}, {}, {&x}, on_device([] {}));  // must not hang
  while (engine.stats().bytes_in_flight > 0) std::this_thread::yield();
  EXPECT_EQ(engine.stats().in_flight, 6u);
  device.open();
  engine.wait_all();
}

TEST_F(EngineStream, DrainWaitsWithoutTakingFailuresAway) {
  ThreadedEngine engine;
  Var x;
  push(engine, kCompute, {}, {&x}, {}, failing("lost"));
  EXPECT_TRUE(engine.drain());
  EXPECT_EQ(engine.stats().in_flight, 0u);
  EXPECT_NE(error_of([&] { engine.wait_all(); }), "");
}

TEST_F(EngineStream, ATaskOfTheNaiveEngineMayPushWorkOfADevice) {
  NaiveEngine engine;
  Var x;
  int value = 0;
  push(engine, {}, {&x}, {}, [&] {
    for (const PushOptions& where : {kCompute, kCopyIn, kCopyOut})
      push(engine, where, {}, {}, {}, on_device([&] { ++value; }));
  });
  EXPECT_EQ(value, 3);
}

TEST_F(EngineStream, AfterStopTasksRunInTheCallerOnTheSameStreams) {
  ThreadedEngine engine;
  Var x;
  int value = 0;
  push(engine, kCompute, {}, {&x}, {}, on_device([&] { value = 1; }));
  engine.stop();
  EXPECT_EQ(value, 1);
  push(engine, kCompute, {}, {}, {&x}, on_device([&] { value = 2; }));
  EXPECT_EQ(value, 2);
}

TEST_F(EngineStream, AForkedChildMayNotUseTheDevice) {
  ThreadedEngine engine;
  Var x, y;
  push(engine, kCompute, {}, {&x}, {}, on_device([] {}));
  engine.wait_all();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string error =
        error_of([&] { push(engine, kCompute, {}, {&x}, {}, on_device([] {})); });
    int ran = 0;
    push(engine, {}, {&y}, {}, [&] { ran = 1; });
    ::_exit(error.find("'spawn'") != std::string::npos && ran == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace mxlite::engine
