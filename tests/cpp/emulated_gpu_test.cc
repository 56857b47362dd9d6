// Tests that the emulator finds the faults of wrong kernels: accesses beside allocations, and
// results that depend on the order of blocks and threads.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "cpp/core/cuda/launch.h"
#include "tests/cpp/emulated_gpu/faults.h"
#include "tests/cpp/emulated_gpu/guarded_memory.h"
#include "tests/cpp/emulated_gpu/schedule.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

using emulated::allocate_guarded;
using emulated::free_guarded;

constexpr int kPlacements = 3;  // allocations of one size take turns

__global__ void write_at(char* data, int64_t i) { data[i] = 1; }
__global__ void read_at(const volatile char* data, int64_t i) { (void)data[i]; }
__global__ void copy_wide(uint4* to, const uint4* from) { *to = *from; }
__global__ void store_block(unsigned* last) { *last = blockIdx.x; }
__global__ void store_thread(unsigned* last) { *last = threadIdx.x; }

// After the barrier all threads but the last one continue in the order of the schedule.
__global__ void store_after_barrier(unsigned* last) {
  __syncthreads();
  *last = threadIdx.x;
}

__global__ void never_meet() {
  if (threadIdx.x > 0) __syncwarp();
  __syncthreads();
}

template <class... Params, class... Args>
void launch(unsigned blocks, unsigned threads, void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config;
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  cuda::launch_kernel(config, kernel, args...);
}

class EmulatedGpu : public testing::Test {
 protected:
  void SetUp() override { emulated::check_guarded_memory(); }
  void TearDown() override { emulation::set_order(""); }
};

class Sizes : public EmulatedGpu, public testing::WithParamInterface<int64_t> {};

TEST_P(Sizes, WritesBesideAnAllocationAreErrorsThatNameKernelAndPlace) {
  const int64_t bytes = GetParam();
  std::vector<void*> held;
  for (int i = 0; i < kPlacements; ++i) {
    char* const data = static_cast<char*>(allocate_guarded(static_cast<size_t>(bytes)));
    held.push_back(data);
    EXPECT_EQ(error_of([&] { launch(1, 1, write_at, data, int64_t{0}); }), "");
    EXPECT_EQ(error_of([&] { launch(1, 1, write_at, data, bytes - 1); }), "");
    for (const int64_t outside : {int64_t{-1}, int64_t{-40}, bytes, bytes + 33}) {
      const std::string error = error_of([&] { launch(1, 1, write_at, data, outside); });
      EXPECT_HAS(error, "write_at failed");
      EXPECT_HAS(error, str("byte ", outside, " of an allocation of ", bytes, " bytes"));
    }
  }
  for (void* data : held) free_guarded(data);
}

TEST_P(Sizes, ReadsBesideAnAllocationAreErrorsInOnePlacementEach) {
  const int64_t bytes = GetParam();
  int found_before = 0, found_behind = 0;
  std::vector<void*> held;
  for (int i = 0; i < kPlacements; ++i) {
    const volatile char* const data =
        static_cast<char*>(allocate_guarded(static_cast<size_t>(bytes)));
    held.push_back(const_cast<char*>(data));
    EXPECT_EQ(error_of([&] { launch(1, 1, read_at, data, bytes - 1); }), "");
    const std::string before = error_of([&] { launch(1, 1, read_at, data, int64_t{-1}); });
    const std::string behind = error_of([&] { launch(1, 1, read_at, data, bytes); });
    found_before += has(before, "read_at failed: it accessed byte -1 of");
    found_behind += has(behind, str("read_at failed: it accessed byte ", bytes, " of"));
  }
  EXPECT_GE(found_before, 1);
  EXPECT_GE(found_behind, 1);
  for (void* data : held) free_guarded(data);
}

INSTANTIATE_TEST_SUITE_P(Bytes, Sizes, testing::Values(1, 20, 48, 4096, 5000, 12288));

TEST_F(EmulatedGpu, AWriteFarBehindAnAllocationIsFoundWhenThatIsFreed) {
  void* data = nullptr;
  do data = allocate_guarded(24);
  while (reinterpret_cast<uintptr_t>(data) % 4096 != 0);  // its page has the rest behind it
  char* const bytes = static_cast<char*>(data);
  EXPECT_EQ(error_of([&] { launch(1, 1, write_at, bytes, int64_t{2000}); }), "");
  free_guarded(data);
  unsigned* const last = static_cast<unsigned*>(allocate_guarded(4));
  EXPECT_HAS(error_of([&] { launch(1, 1, store_block, last); }),
             "byte 2000 of an allocation of 24 bytes, or an earlier kernel did");
  EXPECT_EQ(error_of([&] { launch(1, 1, store_block, last); }), "");
  free_guarded(last);
}

TEST_F(EmulatedGpu, WideAccessesMustBeAligned) {
  char* const data = static_cast<char*>(allocate_guarded(64, 16));
  std::memset(data, 1, 64);
  const auto copy = [&](int64_t from) {
    return error_of([&] {
      launch(1, 1, copy_wide, reinterpret_cast<uint4*>(data),
             reinterpret_cast<const uint4*>(data + from));
    });
  };
  EXPECT_EQ(copy(16), "");
  EXPECT_HAS(copy(20), "copy_wide failed: it accessed an address that is not aligned");
  free_guarded(data);
}

TEST_F(EmulatedGpu, ScratchMemoryIsAlignedAndGuarded) {
  for (const size_t bytes : {100u, 256u, 5000u})
    for (int i = 0; i < kPlacements; ++i) {
      char* const data = static_cast<char*>(emulated::immediate_stream().scratch(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
      const auto behind = static_cast<int64_t>(bytes);
      EXPECT_HAS(error_of([&] { launch(1, 1, write_at, data, behind); }),
                 str("byte ", bytes, " of an allocation of ", bytes, " bytes"));
    }
}

TEST_F(EmulatedGpu, WorkThatIsNoKernelIsCheckedByName) {
  char* const data = static_cast<char*>(allocate_guarded(4096));
  std::vector<char> source(8192);
  const auto copy = [&] { std::memmove(data, source.data(), source.size()); };
  EXPECT_HAS(error_of([&] { emulation::run_checked("a copy", copy); }), "a copy failed");
  EXPECT_EQ(error_of([&] { launch(1, 1, write_at, data, int64_t{7}); }), "");
  free_guarded(data);
}

// Runs the kernel in the given order and returns what it stores, such as the number of the last
// block.
unsigned last_of(const std::string& order, unsigned blocks, unsigned threads,
                 void (*kernel)(unsigned*)) {
  emulation::set_order(order);
  auto* const last = static_cast<unsigned*>(allocate_guarded(4));
  launch(blocks, threads, kernel, last);
  const unsigned result = *last;
  free_guarded(last);
  return result;
}

TEST_F(EmulatedGpu, OrdersOfBlocksAndThreadsCanBeChosen) {
  const auto store_last = [](const std::string& order) {
    return std::vector{last_of(order, 64, 1, store_block), last_of(order, 1, 64, store_thread)};
  };
  EXPECT_EQ(store_last(""), (std::vector{63u, 63u}));
  EXPECT_EQ(store_last("reversed"), (std::vector{0u, 0u}));
  EXPECT_EQ(store_last("5"), store_last("5"));
  std::set<std::vector<unsigned>> drawn;
  for (int seed = 0; seed < 8; ++seed) drawn.insert(store_last(std::to_string(seed)));
  EXPECT_GE(drawn.size(), 6u);
  std::set<unsigned> behind_barrier;
  for (int seed = 0; seed < 8; ++seed)
    behind_barrier.insert(last_of(std::to_string(seed), 1, 64, store_after_barrier));
  EXPECT_GE(behind_barrier.size(), 4u);
  EXPECT_HAS(error_of([] { emulation::set_order("backwards"); }), "'backwards' given");
}

TEST_F(EmulatedGpu, ABarrierThatThreadsMissIsAnErrorAndLaterKernelsRun) {
  EXPECT_HAS(error_of([] { launch(2, 32, never_meet); }),
             "never_meet failed: threads wait at a barrier");
  EXPECT_EQ(last_of("", 4, 64, store_after_barrier), 62u);
}

}  // namespace
}  // namespace mxlite
