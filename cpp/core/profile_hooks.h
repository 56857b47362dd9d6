// Where the profiler listens. Off, a scope costs one relaxed load and a branch.
#pragma once
#include <atomic>

namespace mxlite {

// Called on the thread that runs the work, with the same name at begin and end. The name is static
// or interned, so a listener may keep the pointer.
struct ProfileListener {
  void (*begin)(const char* name) = nullptr;
  void (*end)(const char* name) = nullptr;
};

// nullptr: off. The listener must outlive the process (scopes may still be open when it is taken
// off).
extern std::atomic<const ProfileListener*> profile_listener;

class ProfileScope {
 public:
  explicit ProfileScope(const char* name) {
    if (!profile_listener.load(std::memory_order_relaxed)) [[likely]]
      return;
    listener_ = profile_listener.load(std::memory_order_acquire);
    if (listener_) listener_->begin(name_ = name);
  }
  ~ProfileScope() {
    if (listener_) [[unlikely]]
      listener_->end(name_);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  const ProfileListener* listener_ = nullptr;
  const char* name_ = nullptr;
};

}  // namespace mxlite
