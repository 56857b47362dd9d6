#include "cpp/core/device_profile.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "cpp/core/device_timer.h"

namespace mxlite {
namespace {

// Number of pending marks above which the oldest marks are converted to times early. The device has
// passed these marks by then.
constexpr size_t kMostMarks = size_t{1} << 16;
constexpr size_t kMostEvents = size_t{4} << 20;

// Bit 30 distinguishes the track number of a device from a thread number. Bits 4 to 11 are the
// device. Bit 12 is set for tracks of single kernels.
constexpr uint32_t kDeviceTrack = 1u << 30, kKernelTrack = 1u << 12;

std::atomic<DeviceTimer*> timer{nullptr};

struct Tracing {
  std::mutex mutex;
  KernelTracer* tracer = nullptr;
  bool runs = false;
};
Tracing& tracing() {
  static auto* const instance = new Tracing;  // leaked, like the tracer
  return *instance;
}

struct PendingMark {
  std::shared_ptr<DeviceTimer::Mark> mark;
  const char* name;
  uint32_t track;
  char phase;
};

struct Events {
  std::mutex mutex;
  std::deque<PendingMark> marks;
  std::vector<ProfileEvent> resolved;
  std::map<const Stream*, uint32_t> tracks;
  uint64_t dropped = 0;

  uint32_t track_of(Stream& stream) {
    const auto number = static_cast<uint32_t>(tracks.size());
    const auto device = static_cast<uint32_t>(stream.device().index);
    return tracks.emplace(&stream, kDeviceTrack | device << 4 | (number & 15)).first->second;
  }
  // Converts the oldest mark to a time. Skips it if the device has failed.
  void resolve_first() {
    const PendingMark p = std::move(marks.front());
    marks.pop_front();
    try {
      if (resolved.size() < kMostEvents) {
        resolved.push_back(
            {timer.load()->nanoseconds(p.mark), 0, p.name, p.track, ProfileKind::kDevice, p.phase});
        return;
      }
    } catch (const std::exception&) {
    }
    ++dropped;
  }
};

// A track on which events do not overlap. Kernels of one stream may overlap (branches of a CUDA
// graph); they then get different tracks.
struct Track {
  int device;
  uint32_t stream, number;
  int64_t end;
};

uint32_t track_of(const DeviceKernel& kernel, std::vector<Track>& tracks) {
  uint32_t of_device = 0;
  for (Track& track : tracks) {
    if (track.device != kernel.device) continue;
    ++of_device;
    if (track.stream != kernel.stream || track.end > kernel.begin) continue;
    track.end = kernel.end;
    return track.number;
  }
  const uint32_t number =
      kDeviceTrack | kKernelTrack | static_cast<uint32_t>(kernel.device) << 4 | (of_device & 15);
  tracks.push_back({kernel.device, kernel.stream, number, kernel.end});
  return number;
}

void take_kernels(ProfileRecord& record) {
  std::vector<DeviceKernel> kernels;
  Tracing& t = tracing();
  {
    const std::lock_guard lock(t.mutex);
    if (!t.tracer) return;
    record.dropped += t.tracer->take(kernels);
  }
  std::sort(kernels.begin(), kernels.end(), [](const DeviceKernel& a, const DeviceKernel& b) {
    return a.begin < b.begin || (a.begin == b.begin && a.end < b.end);
  });
  std::vector<Track> tracks;
  for (const DeviceKernel& k : kernels) {
    const uint32_t track = track_of(k, tracks);
    record.events.push_back({k.begin, 0, k.name, track, ProfileKind::kDevice, 'B'});
    record.events.push_back({k.end, 0, k.name, track, ProfileKind::kDevice, 'E'});
  }
}

Events& events() {
  static auto* const instance = new Events;  // leaked, as threads may outlive static objects
  return *instance;
}

}  // namespace

void set_device_timer(DeviceTimer* given) { timer = given; }
DeviceTimer* device_timer() { return timer.load(std::memory_order_acquire); }

void set_kernel_tracer(KernelTracer* given) {
  Tracing& t = tracing();
  const std::lock_guard lock(t.mutex);
  t.tracer = given;
  if (t.tracer && t.runs) t.tracer->start();
}

void start_device_profile() {
  Tracing& t = tracing();
  const std::lock_guard lock(t.mutex);
  if (!std::exchange(t.runs, true) && t.tracer) t.tracer->start();
}

void stop_device_profile() {
  Tracing& t = tracing();
  const std::lock_guard lock(t.mutex);
  if (std::exchange(t.runs, false) && t.tracer) t.tracer->stop();
}

void profile_mark(Stream& stream, std::shared_ptr<DeviceTimer::Mark> mark, const char* name,
                  char phase) noexcept {
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  try {
    if (e.marks.size() >= kMostMarks) e.resolve_first();
    e.marks.push_back({std::move(mark), name, e.track_of(stream), phase});
  } catch (const std::exception&) {
    ++e.dropped;
  }
}

void DeviceScope::begin(Stream& stream, const char* name) noexcept {
  try {
    std::shared_ptr<DeviceTimer::Mark> mark = device_timer()->mark(stream);
    if (!mark) return;
    profile_mark(stream, std::move(mark), name, 'B');
    stream_ = &stream;
    name_ = name;
  } catch (const std::exception&) {  // the device has failed, and its tasks report this
  }
}

void DeviceScope::end() noexcept {
  try {
    if (std::shared_ptr<DeviceTimer::Mark> mark = device_timer()->mark(*stream_))
      profile_mark(*stream_, std::move(mark), name_, 'E');
  } catch (const std::exception&) {  // the device has failed, and its tasks report this
  }
}

void take_device_profile(ProfileRecord& record) {
  Events& e = events();
  const std::lock_guard lock(e.mutex);
  while (!e.marks.empty()) e.resolve_first();
  record.events.insert(record.events.end(), e.resolved.begin(), e.resolved.end());
  record.dropped += e.dropped;
  e.resolved.clear();
  e.dropped = 0;
  take_kernels(record);
}

}  // namespace mxlite
