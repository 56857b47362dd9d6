#include "cpp/core/random.h"

#include <map>
#include <mutex>
#include <utility>

#include "cpp/core/random_states.h"

namespace mxlite {
namespace {

struct Generators {
  std::mutex mutex;
  uint64_t base_seed = 0;                                       // guarded by mutex
  std::map<std::pair<DeviceType, int>, RandomState> by_device;  // guarded by mutex

  RandomState& get(Device device) {
    auto [it, inserted] = by_device.try_emplace({device.type, device.index});
    if (inserted) it->second.seed = derive(device);
    return it->second;
  }
  // splitmix64 of seed and device index: neighbouring devices get unrelated keys. The device's type
  // does not enter, so cpu(i) and gpu(i) draw the same numbers.
  uint64_t derive(Device device) const {
    uint64_t z = base_seed + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(device.index + 1);
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

}  // namespace

RandomReplayScope::RandomReplayScope(RandomState state) : state_(state), outer_(replayed) {
  replayed = &state_;
}

RandomReplayScope::~RandomReplayScope() { replayed = outer_; }

RandomState reserve_random(Device device, uint64_t count) {
  if (replayed) {
    const RandomState reserved = *replayed;
    replayed->offset += count;
    return reserved;
  }
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  RandomState& state = g.get(device);
  const RandomState reserved = state;
  state.offset += count;
  return reserved;
}

void seed_random(uint64_t seed) {
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  g.base_seed = seed;
  g.by_device.clear();
}

void seed_random(uint64_t seed, Device device) {
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  g.get(device) = {seed, 0};
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
