// 64-bit FNV-1a hashes for comparing texts and messages. Not secure against attackers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace mxlite {

inline constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325;

// Returns the hash of the preceding bytes followed by `bytes`. `hash` is the hash of the preceding
// bytes.
inline uint64_t hash_of(std::span<const std::byte> bytes, uint64_t hash = kHashOfNothing) {
  for (const std::byte b : bytes) hash = (hash ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return hash;
}

}  // namespace mxlite
