// Objects that C programs refer to by address.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cpp/base/error.h"

namespace mxlite::predict {

// Owns the live objects of one class and finds them by address. find() and remove() throw if no
// live object has the address. A freed or invalid handle thus causes an error instead of undefined
// behavior. Thread-safe.
template <class T>
class Handles {
 public:
  // Returns the set of this class. The set is never destroyed, because threads may use it while the
  // program ends.
  static Handles& get() {
    static auto* const all = new Handles;
    return *all;
  }
  T* add(std::unique_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* const address = object.get();
    live_[address] = std::move(object);
    return address;
  }
  // The result keeps the object alive even if another thread frees the handle.
  std::shared_ptr<T> find(const void* handle) {
    const std::lock_guard lock(mutex_);
    return entry(handle)->second;
  }
  void remove(const void* handle) {
    std::shared_ptr<T> last;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = entry(handle);
    last = std::move(found->second);
    live_.erase(found);
  }

 private:
  auto entry(const void* handle) {
    const auto found = live_.find(handle);
    MX_CHECK(found != live_.end(), "the handle must be one that was created and not freed, got ",
             handle);
    return found;
  }
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<T>> live_;
};

}  // namespace mxlite::predict
