// Hashes of ids of embedding tables. Do not change these functions: files, initial values and the
// classes that sample_classes chooses depend on the hashes.
#pragma once
#include <cstdint>

namespace mxlite::sparse {

// Returns a hash of 64 bits (the finalizer of SplitMix64; Steele et al., 2014).
inline uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// Returns a hash of 32 bits (the finalizer of MurmurHash3).
inline uint32_t mixed32(uint32_t x) {
  x = (x ^ x >> 16) * 0x85ebca6b;
  x = (x ^ x >> 13) * 0xc2b2ae35;
  return x ^ x >> 16;
}

// Returns the initial value of one column of a row. Values are uniform in [-scale, scale) if step
// is scale * 2^-23.
inline float initial_value(uint64_t row_key, int64_t column, float step) {
  const uint32_t bits =
      mixed32(static_cast<uint32_t>(row_key) + static_cast<uint32_t>(column) * 0x9e3779b9u) ^
      static_cast<uint32_t>(row_key >> 32);
  return static_cast<float>(static_cast<int32_t>(bits) >> 8) * step;
}

}  // namespace mxlite::sparse
