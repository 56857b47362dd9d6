#include "cpp/kvstore/comm/link/socket.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <vector>

namespace mxlite {
namespace {

// The descriptors of this process's sockets. Forks of the process close these descriptors.
struct OwnDescriptors {
  std::mutex mutex;
  std::vector<int> all;       // guarded by mutex
  std::atomic<int> forks{0};  // incremented in each fork, with the mutex held
};

OwnDescriptors& own_descriptors();

void lock_for_fork() { own_descriptors().mutex.lock(); }
void unlock_after_fork() { own_descriptors().mutex.unlock(); }

void close_in_child() {
  OwnDescriptors& own = own_descriptors();
  for (const int fd : own.all) close(fd);
  own.all.clear();
  ++own.forks;
  own.mutex.unlock();
}

// The object is leaked, because sockets may be destroyed after static objects.
OwnDescriptors& own_descriptors() {
  static OwnDescriptors& own = *new OwnDescriptors;
  static const int registered = pthread_atfork(lock_for_fork, unlock_after_fork, close_in_child);
  static_cast<void>(registered);
  return own;
}

}  // namespace

ClosedInForks::ClosedInForks(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  OwnDescriptors& own = own_descriptors();
  std::lock_guard lock(own.mutex);
  own.all.push_back(fd_);
  forks_ = own.forks;
}

void ClosedInForks::end(bool closes) noexcept {
  if (fd_ < 0) return;
  OwnDescriptors& own = own_descriptors();
  std::lock_guard lock(own.mutex);
  if (forks_ == own.forks) {
    std::erase(own.all, fd_);
    if (closes) close(fd_);
  }
  fd_ = -1;
}

int ClosedInForks::get() const { return forks_ == own_descriptors().forks ? fd_ : -1; }

}  // namespace mxlite
