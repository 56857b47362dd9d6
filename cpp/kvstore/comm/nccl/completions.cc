#include "cpp/kvstore/comm/nccl/completions.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "cpp/base/error.h"

namespace mxlite::nccl {

Completions::Completions(Stream& stream) : stream_(stream) {
  sigset_t all, before;  // other threads of the program handle signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { thread_main(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "mxlite-nccl");
}

Completions::~Completions() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Completions::add(std::string what, DoneFn done) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(what), std::move(done), Clock::now()});
  changed_.notify_all();
}

void Completions::fail(const char* reason) noexcept {
  std::lock_guard lock(mutex_);
  failure_.set(reason);
}

bool Completions::busy() {
  std::lock_guard lock(mutex_);
  return !waiting_.empty() || !awaited_.empty();
}

std::optional<Completions::Oldest> Completions::oldest() {
  std::lock_guard lock(mutex_);
  const std::deque<Work>& works = awaited_.empty() ? waiting_ : awaited_;
  if (works.empty()) return std::nullopt;
  const std::chrono::duration<double> seconds = Clock::now() - works.front().since;
  return Oldest{works.front().what, seconds.count()};
}

std::exception_ptr Completions::wait_for_stream() noexcept {
  try {
    stream_.synchronize();
    std::lock_guard lock(mutex_);
    if (failure_.is_set()) mxlite::fail(ErrorKind::kCommunicator, failure_.get());
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// Waits until the stream has completed all work added so far.
void Completions::thread_main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    awaited_.swap(waiting_);
    lock.unlock();
    const std::exception_ptr error = wait_for_stream();
    for (Work& work : awaited_) work.done(error);
    lock.lock();
    awaited_.clear();
  }
}

}  // namespace mxlite::nccl
