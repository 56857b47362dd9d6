#include "cpp/kvstore/comm/link/seal.h"

#include <bit>
#include <cstring>
#include <random>
#include <vector>

namespace mxlite {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit SipState(const SealKey& key)
      : v0(key.a ^ 0x736f6d6570736575u),
        v1(key.b ^ 0x646f72616e646f6du),
        v2(key.a ^ 0x6c7967656e657261u),
        v3(key.b ^ 0x7465646279746573u) {}
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }
  void take(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

SealKey derived(const SealKey& key, std::vector<std::byte> data) {
  data.push_back(std::byte{1});
  const uint64_t a = sip_hash(key, data);
  data.back() = std::byte{2};
  return {a, sip_hash(key, data)};
}

}  // namespace

uint64_t sip_hash(const SealKey& key, std::span<const std::byte> data) {
  SipState state(key);
  const uint64_t length = data.size();
  for (; data.size() >= 8; data = data.subspan(8)) {
    uint64_t word;
    std::memcpy(&word, data.data(), 8);
    state.take(word);
  }
  uint64_t last = length << 56;
  for (size_t i = 0; i < data.size(); ++i) last |= static_cast<uint64_t>(data[i]) << (8 * i);
  state.take(last);
  state.v2 ^= 0xff;
  state.rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

SealKey key_of_secret(const std::string& secret) {
  std::vector<std::byte> data(secret.size());
  if (!secret.empty()) std::memcpy(data.data(), secret.data(), secret.size());
  return derived({}, std::move(data));
}

Nonce random_nonce() {
  std::random_device random;
  Nonce nonce;
  for (size_t i = 0; i < nonce.size(); i += 4) {
    const uint32_t word = random();
    std::memcpy(nonce.data() + i, &word, 4);
  }
  return nonce;
}

ConnectionKeys connection_keys(const SealKey& job, const Nonce& connecting,
                               const Nonce& accepting) {
  std::vector<std::byte> data(connecting.begin(), connecting.end());
  data.insert(data.end(), accepting.begin(), accepting.end());
  data.push_back(std::byte{'c'});
  ConnectionKeys keys;
  keys.connecting = derived(job, data);
  data.back() = std::byte{'a'};
  keys.accepting = derived(job, data);
  return keys;
}

}  // namespace mxlite
