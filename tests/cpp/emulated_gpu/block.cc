#undef _FORTIFY_SOURCE  // its longjmp rejects another fiber's stack
#include "tests/cpp/emulated_gpu/block.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpp/base/error.h"

constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

constinit thread_local Block* running = nullptr;

namespace {

constexpr size_t kStackBytes = size_t{64} << 10;

thread_local Block* entered = nullptr;  // block of the fiber that begins

// Runs `to` until another fiber switches back to `from`. Neither jump saves the signal mask, so
// this is much cheaper than swapcontext. It is not inlined, so that all registers of the caller are
// saved.
[[gnu::noinline]] void switch_to(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

}  // namespace

void Block::start(dim3 index, size_t shared_bytes, const std::function<void()>& thread) {
  thread_ = &thread;
  index_ = index;
  threads_ = static_cast<int>(blockDim.x);
  schedule_.order(order_, static_cast<size_t>(threads_));
  next_ = done_ = 0;
  wakes_ = 0;
  dynamic_shared_.assign(shared_bytes, kFreshShared);
  shared_variables_.clear();
  all_.members = threads_;
  warps_.resize(static_cast<size_t>((threads_ + kWarp - 1) / kWarp));
  for (int w = 0; w < static_cast<int>(warps_.size()); ++w)
    warp_of(w * kWarp).barrier.members = std::min(kWarp, threads_ - w * kWarp);
}

void Block::advance(const char* kernel) {
  const bool can_start = next_ < threads_;
  // Threads that were paused wait until others start, so that much happens during the pause.
  if (!ready_.empty() && (!can_start || schedule_.happens(4))) return resume(*take_ready());
  MX_CHECK_KIND(can_start, mxlite::ErrorKind::kError, "emulated GPU: ", kernel,
                " failed: threads wait at a barrier that others do not reach", describe_order());
  resume(*take_idle());
}

void Block::rethrow_error() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Block::exchange(const void* mine, void* other, size_t bytes, int source) {
  Warp& warp = warp_of(fiber_->thread);
  MX_ASSERT(bytes <= sizeof(warp.slots[0]));
  std::memcpy(warp.slots[lane()], mine, bytes);
  wait_at(warp.barrier);
  std::memcpy(other, warp.slots[source % kWarp], bytes);
  wait_at(warp.barrier);
}

void Block::pause() {
  running = nullptr;
  ready_.push_back(fiber_);
  switch_to_scheduler();
}

Block::Fiber* Block::take_ready() {
  const size_t i = schedule_.pick(ready_.size());
  if (i != 0 && i + 1 != ready_.size()) std::swap(ready_[i], ready_.back());
  Fiber* const fiber = i == 0 ? ready_.front() : ready_.back();
  if (i == 0)
    ready_.pop_front();
  else
    ready_.pop_back();
  return fiber;
}

Block::Fiber* Block::take_idle() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    return fibers_.back().get();
  }
  Fiber* const fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

// Runs until the fiber waits, is paused, or has no thread left.
void Block::resume(Fiber& fiber) {
  fiber_ = &fiber;
  blockIdx = index_;
  if (fiber.stack) {
    threadIdx = dim3(static_cast<unsigned>(fiber.thread), 0, 0);
    entered = running = this;
    return switch_to(scheduler_, fiber.at);
  }
  fiber.stack.reset(static_cast<char*>(std::aligned_alloc(64, kStackBytes)));
  ucontext_t context{};
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, &Block::enter_fiber, 0);
  entered = this;
  if (_setjmp(scheduler_) == 0) setcontext(&context);
}

// Returns when the scheduler resumes the fiber that calls it.
void Block::switch_to_scheduler() {
  running = nullptr;
  switch_to(fiber_->at, scheduler_);
}

void Block::enter_fiber() {
  for (;;) {
    running = nullptr;
    Block& block = *entered;
    block.run_threads();
    block.idle_.push_back(block.fiber_);
    block.switch_to_scheduler();
  }
}

void Block::run_threads() {
  while (next_ < threads_) {
    const int t = fiber_->thread = static_cast<int>(order_[static_cast<size_t>(next_++)]);
    threadIdx = dim3(static_cast<unsigned>(t), 0, 0);
    running = this;
    try {
      (*thread_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    running = nullptr;
    ++done_;
    for (Barrier* b : {&all_, &warp_of(t).barrier})
      if (--b->members == static_cast<int>(b->waiting.size())) open(*b);
  }
}

void Block::open(Barrier& barrier) {
  ready_.insert(ready_.end(), barrier.waiting.begin(), barrier.waiting.end());
  barrier.waiting.clear();
}

void Block::wait_at(Barrier& barrier) {
  running = nullptr;
  if (static_cast<int>(barrier.waiting.size()) + 1 >= barrier.members) {
    open(barrier);
    running = this;  // the last thread continues
    return;
  }
  barrier.waiting.push_back(fiber_);
  switch_to_scheduler();
}

}  // namespace emulation
