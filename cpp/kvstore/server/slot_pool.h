// Processes a server's parts on a few threads. Work of one part runs in order. Work of different
// parts runs concurrently.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cpp/kvstore/server/slot.h"

namespace mxlite::server {

struct SlotQueue {
  explicit SlotQueue(std::unique_ptr<Slot> s) : slot(std::move(s)) {}
  std::unique_ptr<Slot> slot;
  std::deque<std::function<void(Slot&)>> work;  // guarded by the pool's mutex
  bool scheduled = false;                       // guarded by the pool's mutex
};

class SlotPool {
 public:
  explicit SlotPool(int threads);
  ~SlotPool();
  void post(SlotQueue& queue, std::function<void(Slot&)> work);
  // Waits until no work is queued or running.
  void drain();
  // Ends the threads after they have done the queued work. Idempotent.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<SlotQueue*> ready_;  // guarded by mutex_
  size_t busy_ = 0;               // number of queues scheduled or running; guarded by mutex_
  bool stopping_ = false;         // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace mxlite::server
