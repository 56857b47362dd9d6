// Tests that memory of results is allocated when a task runs, not when it is pushed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "cpp/ndarray/ndarray.h"
#include "tests/cpp/engine_test_util.h"

namespace mxlite::engine {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
const TensorSpec kSpec{{static_cast<int64_t>(kBytes)}, DType::kUInt8};

size_t in_use() { return cpu_allocator().stats().in_use; }

TEST(ResultMemory, QueuedTasksHoldNone) {
  constexpr int kTasks = 50;
  const size_t before = in_use();
  Gate gate;
  Var first;
  Engine& engine = Engine::get();
  push(engine, {}, {&first}, {}, [&] { gate.pass(); });
  size_t most = 0;
  NDArrayRef value = NDArray::empty(kSpec, Device{});
  push(engine, {&first}, {&value->storage()->var()}, {},
       [to = value->place()] { std::memset(to.data(), 1, kBytes); });
  for (int i = 0; i < kTasks; ++i) {
    const NDArrayRef next = NDArray::empty(kSpec, Device{});
    push(engine, {&value->storage()->var()}, {&next->storage()->var()}, {},
         [&most, from = value->place(), to = next->place()] {
           const auto* const old = static_cast<const uint8_t*>(from.data());
           std::transform(old, old + kBytes, static_cast<uint8_t*>(to.data()),
                          [](uint8_t byte) { return static_cast<uint8_t>(byte + 1); });
           most = std::max(most, in_use());
         });
    value = next;
  }
  EXPECT_EQ(in_use(), before);
  gate.open();
  value->wait_to_read();
  EXPECT_EQ(static_cast<const uint8_t*>(value->data())[kBytes - 1], 1 + kTasks);
  EXPECT_LE(most, before + 3 * kBytes);
}

// All producers are ready at once; the consumers become ready one by one.
TEST(ResultMemory, IsReadSoonIfManyTasksAreReady) {
  constexpr int kSteps = 40;
  Engine& engine = Engine::get();
  Gate gate;
  Var first;
  push(engine, {}, {&first}, {}, [&] { gate.pass(); });
  std::array<Var, kSteps> values;
  int waiting = 0, most = 0;
  for (Var& value : values) {
    push(engine, {&first}, {&value}, {}, [&] { most = std::max(most, ++waiting); });
    push(engine, {}, {}, {&value}, [&] { --waiting; });
  }
  gate.open();
  engine.wait_all();
  EXPECT_EQ(waiting, 0);
  EXPECT_LE(most, 10);
}

TEST(ResultMemory, IsTheSameForAllThreadsThatAskFirst) {
  const size_t before = in_use();
  for (int round = 0; round < 50; ++round) {
    const StorageRef storage = Storage::allocate(Device{}, kBytes);
    std::array<void*, 4> seen{};
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (void*& address : seen)
      threads.emplace_back([&] {
        for (++ready; ready < 4;) std::this_thread::yield();
        address = storage->data();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_NE(seen[0], nullptr);
    for (void* const address : seen) EXPECT_EQ(address, seen[0]);
    EXPECT_EQ(in_use(), before + kBytes);
  }
  EXPECT_EQ(in_use(), before);
}

TEST(ResultMemory, CountsForTheLimitIfItWasAllocatedOutsideOfTasks) {
  const StorageRef host = Storage::allocate(Device{}, kBytes);
  EXPECT_EQ(host->take_new_bytes(), 0u);
  EXPECT_NE(host->data(), nullptr);
  EXPECT_EQ(host->take_new_bytes(), kBytes);
  EXPECT_EQ(host->take_new_bytes(), 0u);

  const StorageRef result = Storage::allocate(Device{}, kBytes);
  push(Engine::get(), {}, {&result->var()}, {}, [result] { result->data(); });
  Engine::get().wait(result->var());
  EXPECT_EQ(result->take_new_bytes(), 0u);

  std::array<float, 4> foreign{};
  const StorageRef wrapped = Storage::wrap(Device{}, foreign.data(), sizeof foreign, [] {});
  EXPECT_EQ(wrapped->take_new_bytes(), sizeof foreign);
}

}  // namespace
}  // namespace mxlite::engine
