#include "cpp/core/random.h"

#include <map>
#include <mutex>
#include <utility>

#include "cpp/base/error.h"
#include "cpp/core/random_log.h"
#include "cpp/core/random_states.h"

namespace mxlite {
namespace {

// Passes over data sets draw seeds from a separate stream. `by_device` stores the number of passes
// since cpu(0) was seeded under kLoading, a device type on which no operator runs.
constexpr Device kMain{DeviceType::kCPU, 0};
constexpr std::pair<DeviceType, int> kLoading{DeviceType::kShared, 0};
constexpr uint64_t kLoadingStream = ~uint64_t{0};

struct Generators {
  std::mutex mutex;
  uint64_t base_seed = 0;                                       // guarded by mutex
  std::map<std::pair<DeviceType, int>, RandomState> by_device;  // guarded by mutex

  RandomState& get(Device device) {
    auto [it, inserted] = by_device.try_emplace({device.type, device.index});
    if (inserted) it->second.seed = derive(base_seed, device.index);
    return it->second;
  }
  // Returns splitmix64 of seed and device index, so that neighboring devices get unrelated keys.
  // Does not depend on the device type, so cpu(i) and gpu(i) draw the same numbers.
  static uint64_t derive(uint64_t seed, int index) {
    uint64_t z = seed + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(index + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
};

Generators& generators() {
  static auto* g = new Generators;
  return *g;
}

thread_local RandomState* replayed = nullptr;
thread_local RandomLogScope* noted = nullptr;
thread_local RandomLogReplay* answered = nullptr;

RandomState reserve(Device device, uint64_t count) {
  if (replayed) {
    const RandomState reserved = *replayed;
    replayed->offset += count;
    return reserved;
  }
  if (answered) return answered->next();
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  RandomState& state = g.get(device);
  const RandomState reserved = state;
  state.offset += count;
  return reserved;
}

}  // namespace

RandomReplayScope::RandomReplayScope(RandomState state) : state_(state), outer_(replayed) {
  replayed = &state_;
}

RandomReplayScope::~RandomReplayScope() { replayed = outer_; }

RandomLogScope::RandomLogScope(RandomLog& log) : log_(log), outer_(noted) { noted = this; }

RandomLogScope::~RandomLogScope() { noted = outer_; }

void RandomLogScope::note(RandomState reserved) {
  for (RandomLogScope* scope = this; scope; scope = scope->outer_) scope->log_.push_back(reserved);
}

RandomLogReplay::RandomLogReplay(const RandomLog& log)
    : log_(log), outer_(answered), noted_outside_(std::exchange(noted, nullptr)) {
  answered = this;
}

RandomLogReplay::~RandomLogReplay() {
  answered = outer_;
  noted = noted_outside_;
}

RandomState RandomLogReplay::next() {
  MX_CHECK_KIND(
      position_ < log_.size(), ErrorKind::kError,
      "a computation that is run again must draw at most as many random numbers as before, ",
      log_.size(), ", got more; call the same operators in the same order");
  return log_[position_++];
}

RandomState reserve_random(Device device, uint64_t count) {
  const RandomState reserved = reserve(device, count);
  // Numbers that a replay returns are not logged again.
  if (noted && !replayed) noted->note(reserved);
  return reserved;
}

void seed_random(uint64_t seed) {
  if (replayed) return void(*replayed = {Generators::derive(seed, 0), 0});
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  g.base_seed = seed;
  g.by_device.clear();
}

void seed_random(uint64_t seed, Device device) {
  if (replayed) return seed_random(seed);
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  // Ignores the device's index, as in MXNet 1.9.1: each device gets the stream that
  // seed_random(seed) gives to device 0.
  g.by_device[{device.type, device.index}] = {Generators::derive(seed, 0), 0};
  if (device == kMain) g.by_device.erase(kLoading);
}

uint64_t draw_loading_seed() {
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  const uint64_t seed = replayed ? replayed->seed : g.get(kMain).seed;
  const uint64_t pass = replayed ? replayed->offset++ : g.by_device[kLoading].offset++;
  const auto words = philox(seed, pass, kLoadingStream);
  return uint64_t{words[0]} << 32 | words[1];
}

AllRandomStates random_states() {
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  AllRandomStates all{g.base_seed, {}};
  for (const auto& [key, state] : g.by_device)
    all.devices.emplace_back(Device{key.first, key.second}, state);
  return all;
}

void set_random_states(const AllRandomStates& all) {
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  g.base_seed = all.seed;
  g.by_device.clear();
  for (const auto& [device, state] : all.devices) g.by_device[{device.type, device.index}] = state;
}

}  // namespace mxlite
