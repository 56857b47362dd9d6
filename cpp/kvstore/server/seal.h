// Seals of frames: keyed hashes (SipHash-2-4) by which a process knows that a frame comes from who
// has the job's secret, on this connection and at this place. The secret itself never travels.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mxlite::server {

struct SealKey {
  uint64_t a = 0, b = 0;
  bool operator==(const SealKey&) const = default;
};

uint64_t sip_hash(const SealKey& key, std::span<const std::byte> data);
SealKey key_of_secret(const std::string& secret);

// Each end of a connection chooses one.
using Nonce = std::array<std::byte, 16>;
Nonce random_nonce();

struct ConnectionKeys {
  SealKey connecting, accepting;  // for what this end sends
};
ConnectionKeys connection_keys(const SealKey& job, const Nonce& connecting, const Nonce& accepting);

}  // namespace mxlite::server
