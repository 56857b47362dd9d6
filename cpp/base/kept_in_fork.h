// Holds a value that has threads. The threads exist only in the process that created the value. A
// forked child has copies of thread objects and condition variables but not the threads. Destroying
// these copies would never return, so the child leaks the value.
#pragma once

#include <unistd.h>

#include <memory>

namespace mxlite {

template <typename T>
class KeptInFork {
 public:
  KeptInFork() = default;
  ~KeptInFork() {
    if (!is_owner()) static_cast<void>(value_.release());
  }
  KeptInFork& operator=(KeptInFork&&) = delete;  // neither copied nor moved

  // Returns whether this process created the value.
  bool is_owner() const { return owner_ == ::getpid(); }

  T& operator*() const { return *value_; }
  T* operator->() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_ = std::make_unique<T>();
  pid_t owner_ = ::getpid();
};

}  // namespace mxlite
