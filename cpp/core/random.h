// Counter-based random numbers (Philox4x32-10; Salmon et al., SC 2011). The value at (seed, offset)
// does not depend on threads or on the order in which kernels run.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

#include "cpp/base/host_device.h"
#include "cpp/core/device.h"

namespace mxlite {

// Arguments of a random kernel: its seed and the first counter of its range.
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// Reserves `count` random numbers of the device's generator. Called when an op is pushed.
RandomState reserve_random(Device device, uint64_t count);
// During the object's lifetime, this thread's reservations start at `state` instead of the
// generator's position, so that the same calls get the same numbers again.
class RandomReplayScope {
 public:
  explicit RandomReplayScope(RandomState state);
  ~RandomReplayScope();
  RandomReplayScope& operator=(RandomReplayScope&&) = delete;  // neither copied nor moved

 private:
  RandomState state_;
  RandomState* outer_;
};
// Seeds the generators of all devices. As in MXNet, each device derives its own stream from the
// seed, so cpu(0) and cpu(1) differ.
void seed_random(uint64_t seed);
void seed_random(uint64_t seed, Device device);

MX_HOST_DEVICE inline std::array<uint32_t, 4> philox(uint64_t seed, uint64_t counter,
                                                     uint64_t stream = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// Returns a number in [0, 1) with 24 random bits.
MX_HOST_DEVICE inline float to_uniform(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}
// Returns a number in [0, 1) with 53 random bits.
MX_HOST_DEVICE inline double to_uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}
// Returns two standard normal numbers computed from two words (Box and Muller).
MX_HOST_DEVICE inline std::array<float, 2> to_normal(uint32_t a, uint32_t b) {
  const float radius = std::sqrt(-2.0f * std::log(1.0f - to_uniform(a)));
  const float angle = 6.28318530718f * to_uniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace mxlite
