// Blocks of threads as fibers of one thread: a fiber runs until it waits for others or ends, then
// the next one goes on.
#include <ucontext.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "cpp/base/error.h"
#include "cuda_runtime_api.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kWarp = 32;

// Threads that wait until all that are left have come.
struct Barrier {
  int members = 0, arrived = 0;
  uint64_t round = 0;
  void open_if_full() {
    if (arrived > 0 && arrived >= members) {
      arrived = 0;
      ++round;
    }
  }
};

class Block;
thread_local Block* running = nullptr;

class Block {
 public:
  void run(int threads, size_t shared_bytes, const std::function<void()>& thread) {
    thread_ = &thread;
    shared_.assign(shared_bytes, 0x7f);
    all_ = {threads, 0, 0};
    warps_.assign(static_cast<size_t>((threads + kWarp - 1) / kWarp), {});
    while (fibers_.size() < static_cast<size_t>(threads)) {
      fibers_.push_back(std::make_unique<Fiber>());
      fibers_.back()->stack.reset(static_cast<char*>(std::aligned_alloc(64, kStackBytes)));
    }
    for (int t = 0; t < threads; ++t) {
      ++warps_[static_cast<size_t>(t / kWarp)].barrier.members;
      fibers_[static_cast<size_t>(t)]->state = State::kNew;
    }
    Block* const before = running;
    running = this;
    for (int left = threads; left > 0;) {
      bool moved = false;
      for (int t = 0; t < threads; ++t) left -= resume(t, moved);
      MX_ASSERT(moved || left == 0);  // all wait: a barrier that not all threads reach
    }
    running = before;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void sync() { wait_at(all_); }
  void exchange(const void* mine, void* other, size_t bytes, int source) {
    Warp& warp = warps_[static_cast<size_t>(current_ / kWarp)];
    MX_ASSERT(bytes <= sizeof(warp.slots[0]));
    std::memcpy(warp.slots[current_ % kWarp], mine, bytes);
    wait_at(warp.barrier);
    std::memcpy(other, warp.slots[source % kWarp], bytes);
    wait_at(warp.barrier);
  }
  void* shared() { return shared_.data(); }
  int lane() const { return current_ % kWarp; }

 private:
  enum class State { kNew, kWaiting, kDone };
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char, Free> stack;
    State state = State::kDone;
    Barrier* barrier = nullptr;
    uint64_t round = 0;
  };
  struct Warp {
    Barrier barrier;
    alignas(16) char slots[kWarp][16];
  };

  // 1 when the thread has ended.
  int resume(int t, bool& moved) {
    Fiber& f = *fibers_[static_cast<size_t>(t)];
    if (f.state == State::kDone) return 0;
    if (f.state == State::kWaiting && f.barrier->round == f.round) return 0;
    moved = true;
    current_ = t;
    threadIdx = dim3(static_cast<unsigned>(t), 0, 0);
    if (f.state == State::kNew) {
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = kStackBytes;
      f.context.uc_link = &scheduler_;
      makecontext(&f.context, &Block::entry, 0);
    }
    f.state = State::kDone;  // unless it waits
    swapcontext(&scheduler_, &f.context);
    if (f.state == State::kWaiting) return 0;
    for (Barrier* b : {&all_, &warps_[static_cast<size_t>(t / kWarp)].barrier}) {
      --b->members;
      b->open_if_full();
    }
    return 1;
  }
  static void entry() {
    Block& block = *running;
    try {
      (*block.thread_)();
    } catch (...) {
      block.error_ = std::current_exception();
    }
  }
  void wait_at(Barrier& b) {
    Fiber& f = *fibers_[static_cast<size_t>(current_)];
    f.round = b.round;
    ++b.arrived;
    b.open_if_full();
    if (b.round != f.round) return;  // the last one goes on
    f.state = State::kWaiting;
    f.barrier = &b;
    swapcontext(&f.context, &scheduler_);
  }

  const std::function<void()>* thread_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<char> shared_;
  std::vector<Warp> warps_;
  Barrier all_;
  ucontext_t scheduler_{};
  std::exception_ptr error_;
  int current_ = 0;
};

}  // namespace

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  static thread_local Block threads;
  MX_ASSERT(grid.x > 0 && grid.y > 0 && grid.z == 1 && block.y == 1 && block.z == 1);
  MX_ASSERT(block.x > 0 && block.x <= 1024 && shared_bytes <= 48 << 10);
  gridDim = grid;
  blockDim = block;
  for (unsigned b = 0; b < grid.x * grid.y; ++b) {
    blockIdx = dim3(b % grid.x, b / grid.x, 0);
    threads.run(static_cast<int>(block.x), shared_bytes, thread);
  }
}
void* dynamic_shared() { return running->shared(); }
void sync_block() { running->sync(); }
void exchange(const void* mine, void* other, size_t bytes, int source_lane) {
  running->exchange(mine, other, bytes, source_lane);
}
int lane() { return running->lane(); }

}  // namespace emulation
