#include "cpp/kvstore/server/slot_pool.h"

#include <pthread.h>
#include <signal.h>

namespace mxlite::server {

SlotPool::SlotPool(int threads) {
  sigset_t all, before;  // other threads of the program handle signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SlotPool::~SlotPool() { stop(); }

void SlotPool::post(SlotQueue& queue, std::function<void(Slot&)> work) {
  std::lock_guard lock(mutex_);
  queue.work.push_back(std::move(work));
  if (std::exchange(queue.scheduled, true)) return;
  ++busy_;
  ready_.push_back(&queue);
  changed_.notify_one();
}

void SlotPool::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return busy_ == 0; });
}

void SlotPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void SlotPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    if (ready_.empty()) return;
    SlotQueue& queue = *ready_.front();
    ready_.pop_front();
    const auto work = std::move(queue.work.front());
    queue.work.pop_front();
    lock.unlock();
    work(*queue.slot);
    lock.lock();
    if (!queue.work.empty()) {
      ready_.push_back(&queue);  // moves to the end, so that other queues run first
      changed_.notify_one();
      continue;
    }
    queue.scheduled = false;
    if (--busy_ == 0) idle_.notify_all();
  }
}

}  // namespace mxlite::server
