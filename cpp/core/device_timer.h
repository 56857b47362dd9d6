// Time that a device works, for the profiler: marks in streams before and after what is submitted,
// and single kernels where the device's own tools record them.
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
  // Null where work is recorded instead of run. Called by the thread that submits to the stream.
  virtual std::shared_ptr<Mark> mark(Stream& stream) = 0;
  // When the device reached a mark, by the clock of the profiler; waits until it does. Called with
  // the marks of a stream in order, by any thread, one at a time.
  virtual int64_t nanoseconds(const std::shared_ptr<Mark>& mark) = 0;
};

// The accelerator plug-in calls this once; without one there is no timer.
void set_device_timer(DeviceTimer* timer);
DeviceTimer* device_timer();

// A kernel or copy that a device has run; times are nanoseconds of the profiler's clock.
struct DeviceKernel {
  int64_t begin = 0, end = 0;
  const char* name = nullptr;  // interned
  int device = 0;
  uint32_t stream = 0;  // number of the stream on its device
};

class KernelTracer {
 public:
  virtual ~KernelTracer() = default;
  // Begins and ends recording. A tracer that cannot record says why, once, and records nothing.
  virtual void start() = 0;
  virtual void stop() = 0;
  // Appends what was recorded since the last call, in any order; returns how many were lost.
  virtual uint64_t take(std::vector<DeviceKernel>& kernels) = 0;
};

// The accelerator plug-in calls this once, and the tracer starts if the profiler runs.
void set_kernel_tracer(KernelTracer* tracer);

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
