// Runs launches: blocks take turns where the schedule is random, and run one after the other where
// it is not.
#include "tests/cpp/emulated_gpu/emulator.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/emulated_gpu/block.h"
#include "tests/cpp/emulated_gpu/faults.h"
#include "tests/cpp/emulated_gpu/schedule.h"

namespace emulation {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

thread_local const char* next_grid = "a kernel";
// Accesses to memory until the thread that runs is paused. Every access of a kernel counts it down.
thread_local int accesses_left = kNever;

class Grid {
 public:
  void run(const char* kernel, size_t shared_bytes, const std::function<void()>& thread) {
    const size_t blocks = size_t{gridDim.x} * gridDim.y;
    schedule_.begin(kernel, blocks, blockDim.x);
    schedule_.order(order_, blocks);
    next_ = time_ = 0;
    const auto start = [&](Block& block) {
      const uint32_t b = order_[next_++];
      block.start(dim3(b % gridDim.x, b / gridDim.x, 0), shared_bytes, thread);
    };
    while (resident_.size() < std::min(schedule_.resident_blocks(), blocks)) {
      resident_.push_back(take_idle());
      start(*resident_.back());
    }
    accesses_left = schedule_.accesses();
    while (!resident_.empty()) {
      const size_t i = pick_block();
      Block& block = *resident_[i];
      give_turn(block, kernel);
      if (!block.done()) continue;
      block.rethrow_error();
      holder_ = nullptr;
      if (next_ < blocks) {
        start(block);
      } else {
        idle_.push_back(std::move(resident_[i]));
        resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    accesses_left = kNever;
  }

  // Forgets threads that have not ended.
  void abandon() {
    resident_.clear();
    idle_.clear();
    holder_ = nullptr;
    running = nullptr;
    accesses_left = kNever;
  }

  void pause() {
    accesses_left = schedule_.accesses();
    if (schedule_.random()) pause_running();
  }
  void pause_at_atomic() {
    if (schedule_.happens(2)) pause_running();
  }

 private:
  std::unique_ptr<Block> take_idle() {
    if (idle_.empty()) return std::make_unique<Block>(schedule_);
    std::unique_ptr<Block> block = std::move(idle_.back());
    idle_.pop_back();
    return block;
  }

  // While a block sleeps, others run far beyond the place where its thread was paused.
  void pause_running() {
    running->sleep_until(time_ + schedule_.sleep());
    running->pause();
  }

  size_t pick_block() {
    const size_t first = schedule_.pick(resident_.size());
    for (size_t i = 0; i < resident_.size(); ++i) {
      const size_t candidate = (first + i) % resident_.size();
      if (resident_[candidate]->wakes() <= time_) return candidate;
    }
    const auto next =
        std::min_element(resident_.begin(), resident_.end(),
                         [](const auto& a, const auto& b) { return a->wakes() < b->wakes(); });
    time_ = (*next)->wakes();
    return static_cast<size_t>(next - resident_.begin());
  }

  void give_turn(Block& block, const char* kernel) {
    if (holder_ != &block) {
      if (holder_) holder_->shared_variables().save();
      block.shared_variables().restore();
      holder_ = &block;
    }
    const bool alone = resident_.size() == 1;
    while (!block.done()) {
      block.advance(kernel);
      ++time_;
      if (!alone &&
          (block.wakes() > time_ || schedule_.turn_ends(block.shared_variables().bytes())))
        break;
    }
  }

  Schedule schedule_;
  std::vector<uint32_t> order_;  // in which the blocks begin
  size_t next_ = 0;
  uint64_t time_ = 0;  // fibers that ran, and time that all blocks slept
  std::vector<std::unique_ptr<Block>> resident_, idle_;
  Block* holder_ = nullptr;  // its values are in the shared variables
};

Grid& grid_of_thread() {
  static thread_local Grid grid;
  return grid;
}

}  // namespace

std::atomic<int64_t> most_blocks{0}, launches{0};

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  MX_ASSERT(grid.x > 0 && grid.y > 0 && grid.z == 1 && block.y == 1 && block.z == 1);
  MX_ASSERT(block.x > 0 && block.x <= 1024 && shared_bytes <= 48 << 10);
  gridDim = grid;
  blockDim = block;
  const int64_t blocks = int64_t{grid.x} * grid.y;
  ++launches;
  for (int64_t most = most_blocks;
       blocks > most && !most_blocks.compare_exchange_weak(most, blocks);) {
  }
  Grid& threads = grid_of_thread();
  try {
    run_checked(next_grid, [&] { threads.run(next_grid, shared_bytes, thread); });
  } catch (...) {
    threads.abandon();
    throw;
  }
}
void name_next_grid(const char* kernel) { next_grid = kernel; }
void* dynamic_shared() { return running->dynamic_shared(); }
void use_shared(const void* marker) {
  Block* const block = std::exchange(running, nullptr);
  block->shared_variables().use(marker);
  running = block;
}
void sync_block() { running->sync(); }
void exchange(const void* mine, void* other, size_t bytes, int source_lane) {
  running->exchange(mine, other, bytes, source_lane);
}
int lane() { return running->lane(); }

void at_atomic() {
  if (running) grid_of_thread().pause_at_atomic();
}
void before_access() {
  if (--accesses_left > 0) return;
  accesses_left = 1;
  if (running) grid_of_thread().pause();
}

}  // namespace emulation

// Returns the number of blocks of the largest launch since the last call, for tests in Python.
extern "C" [[gnu::visibility("default")]] int64_t mxlite_emulated_most_blocks() {
  return emulation::most_blocks.exchange(0);
}

// Returns the number of launches since the last call.
extern "C" [[gnu::visibility("default")]] int64_t mxlite_emulated_launches() {
  return emulation::launches.exchange(0);
}
