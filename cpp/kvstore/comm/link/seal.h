// Authentication codes of frames between processes. A code is a keyed hash (SipHash-2-4) over the
// job's secret, the connection and the frame's position. It proves that the sender has the secret
// without sending the secret.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mxlite {

struct SealKey {
  uint64_t a = 0, b = 0;
  bool operator==(const SealKey&) const = default;
};

uint64_t sip_hash(const SealKey& key, std::span<const std::byte> data);
SealKey key_of_secret(const std::string& secret);

// Random number that each end of a connection chooses.
using Nonce = std::array<std::byte, 16>;
Nonce random_nonce();

struct ConnectionKeys {
  SealKey connecting, accepting;  // keys for frames sent by the connecting and by the accepting end
};
ConnectionKeys connection_keys(const SealKey& job, const Nonce& connecting, const Nonce& accepting);

}  // namespace mxlite
