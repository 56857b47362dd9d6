// Times of work on devices, for the profiler. Marks in streams enclose submitted work. The device's
// own tools also record single kernels if they can.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

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
  // Submits a mark to the stream. Returns null if the stream records work instead of running it.
  // Called by the thread that submits to the stream.
  virtual std::shared_ptr<Mark> mark(Stream& stream) = 0;
  // Waits until the device has reached the mark and returns the time on the profiler's clock.
  // Called with the marks of a stream in order, by any thread but only one thread at a time.
  virtual int64_t nanoseconds(const std::shared_ptr<Mark>& mark) = 0;
};

// Called once by the accelerator plug-in. Without a plug-in there is no timer.
void set_device_timer(DeviceTimer* timer);
DeviceTimer* device_timer();

// A kernel or copy that a device has run. Times are nanoseconds on the profiler's clock.
struct DeviceKernel {
  int64_t begin = 0, end = 0;
  const char* name = nullptr;  // interned text
  int device = 0;
  uint32_t stream = 0;  // number of the stream on its device
};

class KernelTracer {
 public:
  virtual ~KernelTracer() = default;
  // `start` begins recording and `stop` ends it. A tracer that cannot record reports the reason
  // once.
  virtual void start() = 0;
  virtual void stop() = 0;
  // Appends the records since the last call, in any order. Returns the number of lost records.
  virtual uint64_t take(std::vector<DeviceKernel>& kernels) = 0;
};

// Called once by the accelerator plug-in. Starts the tracer if the profiler is running.
void set_kernel_tracer(KernelTracer* tracer);

// Stores a mark until the profile is taken.
void profile_mark(Stream& stream, std::shared_ptr<DeviceTimer::Mark> mark, const char* name,
                  char phase) noexcept;
bool profiles_devices();

// Records all work that the thread submits to the stream during the object's lifetime as one event
// of the device. The event has the name of the host's event. Has no cost while the profiler is off.
class DeviceScope {
 public:
  DeviceScope(Stream* stream, const char* name) {
    if (!profile_listener.load(std::memory_order_relaxed) || !stream) [[likely]]
      return;
    if (profiles_devices()) begin(*stream, name);
  }
  ~DeviceScope() {
    if (stream_) [[unlikely]]
      end();
  }
  DeviceScope& operator=(DeviceScope&&) = delete;  // neither copied nor moved

 private:
  void begin(Stream& stream, const char* name) noexcept;
  void end() noexcept;

  Stream* stream_ = nullptr;
  const char* name_ = nullptr;
};

}  // namespace mxlite
