// Tests that the emulator finds races between blocks and between threads. For every fault there is
// a wrong kernel, whose results are right while one block runs after the other, and a right kernel.
// This file is compiled with the options of kernels, so that threads are switched at their accesses
// to memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cpp/core/cuda/launch.h"
#include "tests/cpp/emulated_gpu/guarded_memory.h"
#include "tests/cpp/emulated_gpu/schedule.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

constexpr unsigned kBlocks = 8, kThreads = 64;
constexpr int kSeeds = 120;

// Memory of the emulated GPU that has one value everywhere at the beginning.
class Values {
 public:
  Values(size_t count, int value)
      : count_(count), data_(static_cast<int*>(emulated::allocate_guarded(count * sizeof(int)))) {
    std::fill_n(data_, count, value);
  }
  ~Values() { emulated::free_guarded(data_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  int* data() const { return data_; }
  std::vector<int> copy() const { return {data_, data_ + count_}; }

 private:
  size_t count_;
  int* data_;
};

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), Args... args) {
  cudaLaunchConfig_t config;
  config.gridDim = dim3(kBlocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kThreads * sizeof(int);
  cuda::launch_kernel(config, kernel, args...);
}

// Counts the blocks. Without the atomic two blocks may read the same number.
template <bool kAtomic>
__global__ void count_blocks(int* total) {
  if (threadIdx.x != 0) return;
  if (kAtomic)
    atomicAdd(total, 1);
  else
    *total = *total + 1;
}
template <bool kAtomic>
bool counts_blocks() {
  const Values total(1, 0);
  launch(count_blocks<kAtomic>, total.data());
  return total.copy() == std::vector<int>{kBlocks};
}

// The last block adds up what all blocks wrote. Without the atomic no block, or more than one, may
// be the last one.
enum class Counter : uint8_t { kAtomic, kPlain, kBeforeTheSum };

template <Counter kCounter>
__global__ void sum_in_last_block(int* sums, int* arrived, int* result) {
  __shared__ bool last;
  const auto arrive = [&] {
    __threadfence();
    if (kCounter != Counter::kPlain) return atomicAdd(arrived, 1);
    const int before = *arrived;
    *arrived = before + 1;
    return before;
  };
  if (threadIdx.x == 0) {
    int before = 0;
    if (kCounter == Counter::kBeforeTheSum) before = arrive();
    sums[blockIdx.x] = static_cast<int>(blockIdx.x + 1);
    if (kCounter != Counter::kBeforeTheSum) before = arrive();
    last = before == static_cast<int>(gridDim.x - 1);
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += sums[b];
  atomicAdd(result, sum);
}
template <Counter kCounter>
bool sums_in_last_block() {
  const Values sums(kBlocks, 0), arrived(1, 0), result(1, 0);
  launch(sum_in_last_block<kCounter>, sums.data(), arrived.data(), result.data());
  return result.copy() == std::vector<int>{kBlocks * (kBlocks + 1) / 2};
}

// Reads the value of the thread before, through shared memory.
template <bool kWaits, bool kDynamic>
__global__ void rotate(int* to) {
  __shared__ int in_function[kThreads];
  MX_DYNAMIC_SHARED(int, of_launch);
  int* const values = kDynamic ? of_launch : in_function;
  values[threadIdx.x] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (kWaits) __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x == 0 ? -1 : values[threadIdx.x - 1];
}
template <bool kWaits, bool kDynamic>
bool rotates() {
  const Values to(kBlocks * kThreads, 0);
  launch(rotate<kWaits, kDynamic>, to.data());
  const std::vector<int> result = to.copy();
  for (int i = 0; i < static_cast<int>(result.size()); ++i)
    if (result[static_cast<size_t>(i)] != (i % int{kThreads} == 0 ? -1 : i - 1)) return false;
  return true;
}

// Reverses the threads' values through global memory, which blocks must not have in common.
template <bool kOwn>
__global__ void reverse(int* scratch, int* to) {
  if (kOwn) scratch += blockIdx.x * blockDim.x;
  scratch[threadIdx.x] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x];
}
template <bool kOwn>
bool reverses() {
  const Values scratch(kBlocks * kThreads, 0), to(kBlocks * kThreads, 0);
  launch(reverse<kOwn>, scratch.data(), to.data());
  const std::vector<int> result = to.copy();
  for (int i = 0; i < static_cast<int>(result.size()); ++i) {
    const int thread = i % int{kThreads};
    if (result[static_cast<size_t>(i)] != i - thread + int{kThreads} - 1 - thread) return false;
  }
  return true;
}

// Adds up the block's threads in the lanes of warps, then in shared memory of two functions.
__device__ int warp_total(int v) {
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
template <class T>
__device__ T block_total(T v) {
  __shared__ T parts[kThreads / 32];
  v = warp_total(v);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  T total = 0;
  for (const T part : parts) total += part;
  __syncthreads();
  return total;
}
__global__ void total_twice(int* to) {
  __shared__ int first;
  const int total = block_total(static_cast<int>(blockIdx.x));
  if (threadIdx.x == 0) first = total;
  __syncthreads();
  to[blockIdx.x * blockDim.x + threadIdx.x] = first + block_total(1);
}
bool totals_twice() {
  const Values to(kBlocks * kThreads, 0);
  launch(total_twice, to.data());
  const std::vector<int> result = to.copy();
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i] != static_cast<int>(kThreads * (i / kThreads + 1))) return false;
  return true;
}

__global__ void read_fresh(int* to) {
  __shared__ int never_written;
  const int fresh = never_written;
  __syncthreads();
  never_written = 0;  // must not reach the next block
  if (threadIdx.x == 0) to[blockIdx.x] = fresh;
}

// Writes the blocks in the order of their threads.
__global__ void log_blocks(int* count, int* log) {
  log[atomicAdd(count, 1)] = static_cast<int>(blockIdx.x);
}
std::vector<int> logged(const std::string& order, int resident) {
  emulation::set_order(order, resident);
  const Values count(1, 0), log(kBlocks * kThreads, -1);
  launch(log_blocks, count.data(), log.data());
  return log.copy();
}
int switches(const std::vector<int>& log) {
  int count = 0;
  for (size_t i = 1; i < log.size(); ++i) count += log[i] != log[i - 1];
  return count;
}

__global__ void write_before(int* data) { data[-1] = 1; }

int count_wrong(bool (*is_right)(), int resident) {
  int wrong = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    emulation::set_order(std::to_string(seed), resident);
    wrong += !is_right();
  }
  return wrong;
}

struct Fault {
  const char* name;
  bool (*wrong)();
  bool (*right)();
};
void PrintTo(const Fault& f, std::ostream* out) { *out << f.name; }

class EmulatedBlocks : public testing::Test {
 protected:
  void SetUp() override { emulated::check_guarded_memory(); }
  void TearDown() override { emulation::set_order(""); }
};
class BlockRaces : public EmulatedBlocks, public testing::WithParamInterface<Fault> {};

TEST_P(BlockRaces, AreFoundWhereBlocksTakeTurnsOnly) {
  const Fault& fault = GetParam();
  emulation::set_order("");
  EXPECT_TRUE(fault.wrong());
  EXPECT_EQ(count_wrong(fault.wrong, 1), 0);
  EXPECT_GE(count_wrong(fault.wrong, emulation::kResidentBlocks), 2);
  EXPECT_EQ(count_wrong(fault.right, 1), 0);
  EXPECT_EQ(count_wrong(fault.right, emulation::kResidentBlocks), 0);
}
INSTANTIATE_TEST_SUITE_P(
    Faults, BlockRaces,
    testing::Values(Fault{"ReadModifyWrite", counts_blocks<false>, counts_blocks<true>},
                    Fault{"LastBlockByPlainCounter", sums_in_last_block<Counter::kPlain>,
                          sums_in_last_block<Counter::kAtomic>},
                    Fault{"LastBlockCountedBeforeItsSum",
                          sums_in_last_block<Counter::kBeforeTheSum>,
                          sums_in_last_block<Counter::kAtomic>},
                    Fault{"CommonScratch", reverses<false>, reverses<true>}),
    [](const auto& info) { return info.param.name; });

TEST_F(EmulatedBlocks, MissingBarriersAreFoundInOtherOrders) {
  // Threads run in the order of their numbers.
  EXPECT_TRUE((rotates<false, false>()) && (rotates<false, true>()));
  emulation::set_order("reversed");
  EXPECT_FALSE((rotates<false, false>()) || (rotates<false, true>()));
  EXPECT_TRUE((rotates<true, false>()) && (rotates<true, true>()));
  for (const int resident : {1, emulation::kResidentBlocks}) {
    EXPECT_GE(count_wrong(rotates<false, false>, resident), kSeeds / 2);
    EXPECT_GE(count_wrong(rotates<false, true>, resident), kSeeds / 2);
    EXPECT_EQ(count_wrong(rotates<true, false>, resident), 0);
    EXPECT_EQ(count_wrong(rotates<true, true>, resident), 0);
  }
}

TEST_F(EmulatedBlocks, BlocksHaveSharedMemoryOfTheirOwn) {
  for (const int resident : {1, 2, emulation::kResidentBlocks, 64})
    EXPECT_EQ(count_wrong(totals_twice, resident), 0);
}

TEST_F(EmulatedBlocks, SharedMemoryIsFilledWhenABlockBegins) {
  for (const char* order : {"", "reversed", "1", "2"}) {
    emulation::set_order(order);
    const Values to(kBlocks, 0);
    launch(read_fresh, to.data());
    EXPECT_EQ(to.copy(), std::vector<int>(kBlocks, 0x7f7f7f7f));
  }
}

TEST_F(EmulatedBlocks, ASeedRepeatsAScheduleWhateverRanBefore) {
  const std::vector<int> first = logged("5", 4);
  logged("6", 4);
  EXPECT_EQ(logged("5", 4), first);
  std::set<std::vector<int>> drawn;
  for (int seed = 0; seed < 8; ++seed) drawn.insert(logged(std::to_string(seed), 4));
  EXPECT_EQ(drawn.size(), 8u);
  EXPECT_EQ(switches(logged("", 4)), int{kBlocks} - 1);
  for (int seed = 0; seed < 8; ++seed) {
    EXPECT_EQ(switches(logged(std::to_string(seed), 1)), int{kBlocks} - 1);
    EXPECT_GT(switches(logged(std::to_string(seed), 4)), int{kBlocks} - 1);
  }
}

TEST_F(EmulatedBlocks, ErrorsNameTheSeed) {
  const Values values(4, 0);
  emulation::set_order("17", 3);
  const std::string error = error_of([&] { launch(write_before, values.data()); });
  EXPECT_HAS(error, " with MXLITE_EMULATED_ORDER=17 MXLITE_EMULATED_BLOCKS=3");
  emulation::set_order("");
  EXPECT_EQ(error_of([&] { launch(write_before, values.data()); }).find("MXLITE_EMULATED"),
            error.npos);
  EXPECT_HAS(error_of([] { emulation::set_order("1", 0); }), "MXLITE_EMULATED_BLOCKS: 0 given");
}

}  // namespace
}  // namespace mxlite
