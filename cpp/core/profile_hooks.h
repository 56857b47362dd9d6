// Hooks for the profiler. While the profiler is off, a scope costs one relaxed load and a branch.
#pragma once
#include <atomic>
#include <cstdint>

namespace mxlite {

// Category of a scope. Each category has a separate track in a trace.
enum class ProfileKind : uint8_t {
  kOperator,  // an engine task, or a step of an executable
  kApi,       // a call from Python that computes or waits
  kPass,      // compilation of an executable
  kIo,        // a stage of the input pipeline
  kComm,      // a collective operation
  kDevice,    // work of a device, with the device's times
};

// Callbacks that run on the thread that does the work, with the same name at start and end. Names
// are static or interned, so a listener may store the pointer. `count` reports a quantity that
// changes over time.
struct ProfileListener {
  void (*begin)(const char* name, ProfileKind kind) = nullptr;
  void (*end)(const char* name, ProfileKind kind) = nullptr;
  void (*count)(const char* name, int64_t value) = nullptr;
};

// Sets the listener. A null pointer turns profiling off. The listener must outlive the process,
// because scopes may still be open when it is removed.
extern std::atomic<const ProfileListener*> profile_listener;

class ProfileScope {
 public:
  explicit ProfileScope(const char* name, ProfileKind kind = ProfileKind::kOperator) {
    if (!profile_listener.load(std::memory_order_relaxed)) [[likely]]
      return;
    listener_ = profile_listener.load(std::memory_order_acquire);
    kind_ = kind;
    if (listener_) listener_->begin(name_ = name, kind);
  }
  ~ProfileScope() {
    if (listener_) [[unlikely]]
      listener_->end(name_, kind_);
  }
  ProfileScope& operator=(ProfileScope&&) = delete;  // neither copied nor moved

 private:
  const ProfileListener* listener_ = nullptr;
  const char* name_ = nullptr;
  ProfileKind kind_ = ProfileKind::kOperator;
};

inline void profile_count(const char* name, int64_t value) {
  if (!profile_listener.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (const auto* listener = profile_listener.load(std::memory_order_acquire))
    if (listener->count) listener->count(name, value);
}

}  // namespace mxlite
