// Sockets that are closed in forks of their process, so that peers notice when the process ends.
#pragma once
#include <utility>

namespace mxlite {

// Registers a descriptor that another object owns, so that forks of this process close it.
class ClosedInForks {
 public:
  explicit ClosedInForks(int fd = -1);
  ClosedInForks(ClosedInForks&& o) noexcept : fd_(std::exchange(o.fd_, -1)), forks_(o.forks_) {}
  ClosedInForks& operator=(ClosedInForks&& o) noexcept {
    std::swap(fd_, o.fd_);
    std::swap(forks_, o.forks_);
    return *this;
  }
  ~ClosedInForks() { end(/*closes=*/false); }
  int get() const;  // -1 in a fork

 protected:
  void end(bool closes) noexcept;

 private:
  int fd_;
  int forks_ = 0;  // value of the fork counter when the descriptor was registered
};

// Owns a descriptor. The object is empty in a fork of the process.
class Socket : public ClosedInForks {
 public:
  using ClosedInForks::ClosedInForks;
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&&) noexcept = default;
  ~Socket() { end(/*closes=*/true); }
  explicit operator bool() const { return get() >= 0; }
};

}  // namespace mxlite
