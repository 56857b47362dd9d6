#include "cpp/kvstore/comm/shm/heartbeat.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace mxlite {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(50);

class Beater {
 public:
  // The object is leaked, because communicators in static objects may be destroyed later.
  static Beater& get() {
    static Beater& instance = *new Beater;
    return instance;
  }

  void add(std::atomic<int64_t>& place) {
    place.store(monotonic_ns(), std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    places_.push_back(&place);
    if (places_.size() == 1) start();
  }

  void remove(std::atomic<int64_t>& place) {
    std::unique_lock lock(mutex_);
    std::erase(places_, &place);
    if (!places_.empty()) return;
    stopping_ = true;
    changed_.notify_all();
    std::thread thread = std::move(thread_);
    lock.unlock();
    if (thread.joinable()) thread.join();
  }

 private:
  void start() {
    if (thread_.joinable()) return;
    stopping_ = false;
    sigset_t all, before;  // other threads of the program handle signals
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { beat(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "mxlite-beat");
  }

  void beat() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const int64_t now = monotonic_ns();
      for (auto* place : places_) place->store(now, std::memory_order_relaxed);
      changed_.wait_for(lock, kPeriod, [this] { return stopping_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::atomic<int64_t>*> places_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  std::thread thread_;                         // guarded by mutex_
};

}  // namespace

int64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

Heartbeat::Heartbeat(std::atomic<int64_t>& place) : place_(place) { Beater::get().add(place); }

Heartbeat::~Heartbeat() { Beater::get().remove(place_); }

}  // namespace mxlite
