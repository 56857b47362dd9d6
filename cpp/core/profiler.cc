#include "cpp/core/profiler.h"

#include <pthread.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "cpp/core/allocator.h"
#include "cpp/core/device_profile.h"
#include "cpp/core/device_timer.h"

namespace mxlite {
namespace {

constexpr size_t kMostEvents = size_t{4} << 20;  // limit per thread between two calls of take()
constexpr const char* kMemoryName = "Memory: cpu/0";

// Events of one thread. Threads compete for its lock only during take().
struct Buffer {
  std::mutex mutex;
  std::vector<ProfileEvent> events;
  uint64_t dropped = 0;
  uint32_t thread = 0;
  int64_t memory = -1;  // last recorded count of memory bytes
};

struct Buffers {
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> all;
};
Buffers& buffers() {
  static auto* const instance = new Buffers;  // leaked, as threads may outlive static objects
  return *instance;
}

std::atomic<uint32_t> wanted_kinds{~0u};
std::atomic<bool> wants_memory{true};

Buffer& own_buffer() {
  thread_local const std::shared_ptr<Buffer> own = [] {
    auto made = std::make_shared<Buffer>();
    Buffers& list = buffers();
    std::lock_guard lock(list.mutex);
    made->thread = static_cast<uint32_t>(list.all.size());
    list.all.push_back(made);
    return made;
  }();
  return *own;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Appends the event unless memory is exhausted or the buffer has kMostEvents, because the ends of
// scopes must not throw.
void append(Buffer& buffer, const ProfileEvent& event) noexcept {
  try {
    if (buffer.events.size() < kMostEvents) return buffer.events.push_back(event);
  } catch (const std::bad_alloc&) {
  }
  ++buffer.dropped;
}

Buffer* own_buffer_if_possible() noexcept {
  try {
    return &own_buffer();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void record(const char* name, ProfileKind kind, char phase, int64_t value = 0) noexcept {
  Buffer* const buffer = own_buffer_if_possible();
  if (!buffer) return;
  std::lock_guard lock(buffer->mutex);
  append(*buffer, {now(), value, name, buffer->thread, kind, phase});
}

bool wanted(ProfileKind kind) {
  return wanted_kinds.load(std::memory_order_relaxed) >> static_cast<int>(kind) & 1;
}

void on_begin(const char* name, ProfileKind kind) {
  if (wanted(kind)) record(name, kind, 'B');
}

void on_end(const char* name, ProfileKind kind) {
  if (wanted(kind)) record(name, kind, 'E');
  if (kind != ProfileKind::kOperator || !wants_memory.load(std::memory_order_relaxed)) return;
  const auto in_use = static_cast<int64_t>(cpu_allocator().stats().in_use);
  Buffer* const buffer = own_buffer_if_possible();
  if (!buffer) return;
  std::lock_guard lock(buffer->mutex);
  if (buffer->memory == in_use) return;
  buffer->memory = in_use;
  append(*buffer, {now(), in_use, kMemoryName, buffer->thread, kind, 'C'});
}

void on_count(const char* name, int64_t value) { record(name, ProfileKind::kOperator, 'C', value); }

constexpr ProfileListener kRecorder{on_begin, on_end, on_count};

// A forked child does not record. It does not use locks that another thread may have held during
// the fork.
void forget_in_child() { profile_listener.store(nullptr, std::memory_order_relaxed); }

}  // namespace

void start_profiler(const ProfilerOptions& options) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, forget_in_child); });
  wanted_kinds = options.kinds;
  wants_memory = options.memory;
  if (wanted(ProfileKind::kDevice))
    start_device_profile();
  else
    stop_device_profile();
  profile_listener.store(&kRecorder, std::memory_order_release);
}

void stop_profiler() {
  profile_listener.store(nullptr, std::memory_order_release);
  stop_device_profile();
}

bool profiles_devices() { return device_timer() && wanted(ProfileKind::kDevice); }

bool profiler_runs() { return profile_listener.load(std::memory_order_relaxed) == &kRecorder; }

ProfileRecord take_profile() {
  std::vector<std::shared_ptr<Buffer>> all;
  {
    std::lock_guard lock(buffers().mutex);
    all = buffers().all;
  }
  ProfileRecord taken;
  for (const auto& buffer : all) {
    std::lock_guard lock(buffer->mutex);
    taken.events.insert(taken.events.end(), buffer->events.begin(), buffer->events.end());
    taken.dropped += buffer->dropped;
    buffer->events.clear();
    buffer->dropped = 0;
    buffer->memory = -1;
  }
  take_device_profile(taken);
  return taken;
}

}  // namespace mxlite
