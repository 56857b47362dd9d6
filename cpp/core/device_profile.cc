#include "cpp/core/device_profile.h"

#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <mutex>

#include "cpp/core/device_timer.h"

namespace mxlite {
namespace {

// More marks than this are turned into times before the profile is taken; they are long past then.
constexpr size_t kMostMarks = size_t{1} << 16;
constexpr size_t kMostEvents = size_t{4} << 20;

std::atomic<DeviceTimer*> timer{nullptr};

struct Pending {
  std::shared_ptr<DeviceTimer::Mark> mark;
  const char* name;
  uint32_t track;
  char phase;
};

struct Events {
  std::mutex mutex;
  std::deque<Pending> marks;
  std::vector<ProfileEvent> resolved;
  std::map<const Stream*, uint32_t> tracks;
  uint64_t dropped = 0;

  // Numbers of tracks cannot be those of threads; bits 4 to 11 are the device.
  uint32_t track_of(Stream& stream) {
    const auto number = static_cast<uint32_t>(tracks.size());
    const auto device = static_cast<uint32_t>(stream.device().index);
    return tracks.emplace(&stream, 1u << 30 | device << 4 | (number & 15)).first->second;
  }
  // A device that broke tells no times.
  void resolve_first() {
    const Pending p = std::move(marks.front());
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

Events& events() {
  static auto* const instance = new Events;  // leaked: threads may outlive static destructors
  return *instance;
}

}  // namespace

void set_device_timer(DeviceTimer* given) { timer = given; }
DeviceTimer* device_timer() { return timer.load(std::memory_order_acquire); }

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

void DeviceScope::end() noexcept {
  try {
    if (std::shared_ptr<DeviceTimer::Mark> mark = device_timer()->mark(*stream_))
      profile_mark(*stream_, std::move(mark), name_, 'E');
  } catch (const std::exception&) {  // the device broke; its tasks say so
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
}

}  // namespace mxlite
