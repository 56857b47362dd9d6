// Time that a device works, for the profiler: marks in streams, before and after what is submitted.
#pragma once
#include <cstdint>
#include <memory>

#include "cpp/core/profile_hooks.h"
#include "cpp/core/stream.h"

namespace mxlite {

class DeviceTimer {
 public:
  // A point in a stream.
  struct Mark {
    virtual ~Mark() = default;
  };

  virtual ~DeviceTimer() = default;
  // Null where work is recorded instead of run. Called by the thread that submits to the stream.
  virtual std::shared_ptr<Mark> mark(Stream& stream) = 0;
  // When the device reached a mark, by the clock of the profiler; waits until it does. Called with
  // the marks of a stream in order, by any thread, one at a time.
  virtual int64_t nanoseconds(const std::shared_ptr<Mark>& mark) = 0;
};

// The accelerator plug-in calls this once; without one there is no timer.
void set_device_timer(DeviceTimer* timer);
DeviceTimer* device_timer();

// Keeps a mark until the profile is taken.
void profile_mark(Stream& stream, std::shared_ptr<DeviceTimer::Mark> mark, const char* name,
                  char phase) noexcept;
bool profiles_devices();

// Records all that the thread submits to the stream during its life as one event of the device,
// with the name of the host's event. It costs nothing while the profiler is off.
class DeviceScope {
 public:
  DeviceScope(Stream* stream, const char* name) {
    if (!profile_listener.load(std::memory_order_relaxed) || !stream) [[likely]]
      return;
    if (!profiles_devices()) return;
    std::shared_ptr<DeviceTimer::Mark> begin = device_timer()->mark(*stream);
    if (!begin) return;
    stream_ = stream;
    profile_mark(*stream, std::move(begin), name_ = name, 'B');
  }
  ~DeviceScope() {
    if (stream_) [[unlikely]]
      end();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  void end() noexcept;

  Stream* stream_ = nullptr;
  const char* name_ = nullptr;
};

}  // namespace mxlite
