// Blocks of threads as fibers of one thread of the host. A fiber runs one thread of the block after
// the other; where one waits for others, the next fiber runs. So a kernel without barriers needs
// a single fiber and no switches. Schedules choose the order of blocks, of threads, and of the
// fibers that continue behind a barrier.
#undef _FORTIFY_SOURCE  // its longjmp rejects another fiber's stack
#include "tests/cpp/emulated_gpu/emulator.h"

#include <setjmp.h>
#include <ucontext.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cpp/base/error.h"
#include "cuda_runtime_api.h"
#include "tests/cpp/emulated_gpu/faults.h"
#include "tests/cpp/emulated_gpu/schedule.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kWarp = 32;

// Threads that wait until all remaining threads have arrived.
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
thread_local const char* next_grid = "a kernel";

// Runs `to` until another fiber switches back to `from`. Neither saves the signal mask, which makes
// it
// much cheaper than swapcontext; not inlined, so that the caller's registers are all saved.
[[gnu::noinline]] void switch_to(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

class Block {
 public:
  void run(int threads, size_t shared_bytes, const std::function<void()>& thread) {
    thread_ = &thread;
    threads_ = threads;
    order_ = thread_orders_.draw(static_cast<size_t>(threads));
    next_ = done_ = 0;
    shared_.assign(shared_bytes, 0x7f);
    all_ = {threads, 0, 0};
    warps_.assign(static_cast<size_t>((threads + kWarp - 1) / kWarp), {});
    for (int t = 0; t < threads; ++t) ++warp_of(t).barrier.members;
    Block* const before = running;
    running = this;
    for (size_t fresh = 0; next_ < threads_; ++fresh) {  // each idle fiber starts what it can
      if (fresh == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
      resume(*fibers_[fresh]);
    }
    while (done_ < threads_) {
      bool moved = false;
      for (const uint32_t i : fiber_orders_.draw(fibers_.size())) {
        Fiber& f = *fibers_[i];
        if (!f.barrier || f.barrier->round == f.round) continue;
        moved = true;
        resume(f);
      }
      MX_CHECK_KIND(moved, mxlite::ErrorKind::kError, "emulated GPU: ", next_grid,
                    " failed: threads wait at a barrier that others do not reach");
    }
    running = before;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void sync() { wait_at(all_); }
  void exchange(const void* mine, void* other, size_t bytes, int source) {
    Warp& warp = warp_of(fiber_->thread);
    MX_ASSERT(bytes <= sizeof(warp.slots[0]));
    std::memcpy(warp.slots[lane()], mine, bytes);
    wait_at(warp.barrier);
    std::memcpy(other, warp.slots[source % kWarp], bytes);
    wait_at(warp.barrier);
  }
  // Forgets threads that have not ended.
  void abandon() {
    fibers_.clear();
    error_ = nullptr;
    running = nullptr;
  }
  void* shared() { return shared_.data(); }
  int lane() const { return fiber_->thread % kWarp; }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  struct Fiber {
    std::unique_ptr<char, Free> stack;
    jmp_buf at;
    int thread = 0;
    const Barrier* barrier = nullptr;  // barrier at which it waits
    uint64_t round = 0;
  };
  struct Warp {
    Barrier barrier;
    alignas(16) char slots[kWarp][16];
  };

  Warp& warp_of(int thread) { return warps_[static_cast<size_t>(thread / kWarp)]; }

  // Runs until the fiber waits or has no thread left.
  void resume(Fiber& f) {
    f.barrier = nullptr;
    fiber_ = &f;
    if (f.stack) {
      threadIdx = dim3(static_cast<unsigned>(f.thread), 0, 0);
      return switch_to(scheduler_, f.at);
    }
    f.stack.reset(static_cast<char*>(std::aligned_alloc(64, kStackBytes)));
    ucontext_t context{};
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack.get();
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, &Block::entry, 0);
    if (_setjmp(scheduler_) == 0) setcontext(&context);
  }
  static void entry() {
    for (;;) {
      running->run_threads();
      switch_to(running->fiber_->at, running->scheduler_);
    }
  }
  void run_threads() {
    while (next_ < threads_) {
      const int t = fiber_->thread = static_cast<int>(order_[static_cast<size_t>(next_++)]);
      threadIdx = dim3(static_cast<unsigned>(t), 0, 0);
      try {
        (*thread_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      ++done_;
      for (Barrier* b : {&all_, &warp_of(t).barrier}) {
        --b->members;
        b->open_if_full();
      }
    }
  }
  void wait_at(Barrier& b) {
    Fiber& f = *fiber_;
    f.round = b.round;
    ++b.arrived;
    b.open_if_full();
    if (b.round != f.round) return;  // the last thread continues
    f.barrier = &b;
    switch_to(f.at, scheduler_);
  }

  const std::function<void()>* thread_ = nullptr;
  int threads_ = 0, next_ = 0, done_ = 0;
  Schedule thread_orders_, fiber_orders_;
  std::span<const uint32_t> order_;  // threads of this launch
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<char> shared_;
  std::vector<Warp> warps_;
  Barrier all_;
  jmp_buf scheduler_;
  Fiber* fiber_ = nullptr;  // fiber that runs
  std::exception_ptr error_;
};

}  // namespace

std::atomic<int64_t> most_blocks{0};

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  static thread_local Block threads;
  static thread_local Schedule block_orders;
  MX_ASSERT(grid.x > 0 && grid.y > 0 && grid.z == 1 && block.y == 1 && block.z == 1);
  MX_ASSERT(block.x > 0 && block.x <= 1024 && shared_bytes <= 48 << 10);
  gridDim = grid;
  blockDim = block;
  const int64_t blocks = int64_t{grid.x} * grid.y;
  for (int64_t most = most_blocks;
       blocks > most && !most_blocks.compare_exchange_weak(most, blocks);) {
  }
  const auto run_blocks = [&] {
    for (const uint32_t b : block_orders.draw(static_cast<size_t>(blocks))) {
      blockIdx = dim3(b % grid.x, b / grid.x, 0);
      threads.run(static_cast<int>(block.x), shared_bytes, thread);
    }
  };
  try {
    run_checked(next_grid, run_blocks);
  } catch (...) {
    threads.abandon();
    throw;
  }
}
void name_next_grid(const char* kernel) { next_grid = kernel; }
void* dynamic_shared() { return running->shared(); }
void sync_block() { running->sync(); }
void exchange(const void* mine, void* other, size_t bytes, int source_lane) {
  running->exchange(mine, other, bytes, source_lane);
}
int lane() { return running->lane(); }

}  // namespace emulation

// Returns the number of blocks of the largest launch since the last call, for tests in Python.
extern "C" [[gnu::visibility("default")]] int64_t mxlite_emulated_most_blocks() {
  return emulation::most_blocks.exchange(0);
}
