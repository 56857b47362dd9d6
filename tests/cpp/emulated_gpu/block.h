// One block of threads as fibers of one thread of the host. A fiber runs one thread of the block
// after the other; where one waits for others, or is paused at an access to memory, another fiber
// runs. So a kernel without barriers that is not paused needs a single fiber and no switches.
#pragma once
#include <setjmp.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime_api.h"
#include "tests/cpp/emulated_gpu/schedule.h"
#include "tests/cpp/emulated_gpu/shared_variables.h"

namespace emulation {

class Block {
 public:
  explicit Block(Schedule& schedule) : schedule_(schedule) {}

  void start(dim3 index, size_t shared_bytes, const std::function<void()>& thread);
  bool done() const { return done_ == threads_; }
  // Runs one fiber until it waits, is paused, or no thread is left. Throws if all threads wait.
  void advance(const char* kernel);
  void rethrow_error();

  void sleep_until(uint64_t time) { wakes_ = time; }
  uint64_t wakes() const { return wakes_; }

  SharedVariables& shared_variables() { return shared_variables_; }

  // These are called by the thread that runs.
  void sync() { wait_at(all_); }
  void exchange(const void* mine, void* other, size_t bytes, int source);
  void pause();
  void* dynamic_shared() { return dynamic_shared_.data(); }
  int lane() const { return fiber_->thread % kWarp; }

 private:
  static constexpr int kWarp = 32;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  struct Fiber {
    std::unique_ptr<char, Free> stack;
    jmp_buf at;
    int thread = 0;
  };
  // Threads that wait until all remaining threads have arrived.
  struct Barrier {
    int members = 0;
    std::vector<Fiber*> waiting;
  };
  struct Warp {
    Barrier barrier;
    alignas(16) char slots[kWarp][16];
  };

  Warp& warp_of(int thread) { return warps_[static_cast<size_t>(thread / kWarp)]; }
  Fiber* take_ready();
  Fiber* take_idle();
  void resume(Fiber& fiber);
  void switch_to_scheduler();
  static void enter_fiber();
  void run_threads();
  void wait_at(Barrier& barrier);
  void open(Barrier& barrier);

  Schedule& schedule_;
  const std::function<void()>* thread_ = nullptr;
  dim3 index_;
  uint64_t wakes_ = 0;
  int threads_ = 0, next_ = 0, done_ = 0;
  std::vector<uint32_t> order_;  // in which the threads begin
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;  // without a thread
  std::deque<Fiber*> ready_;  // with a thread that can continue, oldest first
  std::vector<char> dynamic_shared_;
  SharedVariables shared_variables_;
  std::vector<Warp> warps_;
  Barrier all_;
  jmp_buf scheduler_;
  Fiber* fiber_ = nullptr;  // fiber that runs
  std::exception_ptr error_;
};

// The block whose fiber runs in this thread of the host; null outside of kernels, and while the
// emulator itself runs.
extern constinit thread_local Block* running;

}  // namespace emulation
