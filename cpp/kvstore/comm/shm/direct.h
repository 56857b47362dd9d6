// Collectives on arrays that lie in memory which all ranks of the group have mapped. Nothing passes
// through buffers: each byte is read and written once.
#pragma once
#include <span>

#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/shm/channel.h"
#include "cpp/kvstore/comm/shm/peer_memory.h"

namespace mxlite::shm {

// Smaller arrays go through buffers that stay in the caches.
inline constexpr size_t kDirectBytes = size_t{1} << 20;

class DirectCollectives {
 public:
  explicit DirectCollectives(Channel& channel)
      : channel_(channel),
        peers_(channel.size()),
        arrays_(static_cast<size_t>(channel.size())),
        files_(arrays_.size()) {}

  // Inside an operation of the channel, on all ranks alike. False on all ranks: some rank's arrays
  // are not shared, nothing was done. Arrays of all ranks become shared when they come again.
  bool all_reduce(const void* input, void* output, int64_t count, DType dtype, ReduceOp op);
  // The output has this rank's part already.
  bool all_gather(const void* input, void* output, std::span<const size_t> bytes);
  bool broadcast(void* data, size_t bytes, int root);

 private:
  // What a rank tells the others, at the start of its buffer.
  struct Told {
    SharedPlace input, output;
    std::atomic<uint32_t> unreachable{0};         // rank 0's: some rank cannot map another's
    alignas(64) std::atomic<int64_t> claimed{0};  // rank 0's: chunks that somebody works on
  };
  struct Arrays {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  // Without an output: others read only. root: the one rank whose input is needed, -1: all.
  bool exchange(const void* input, size_t input_bytes, void* output, size_t output_bytes, int root);
  bool agree(int first, int last);
  void finish();
  Told& told(int r) const {
    return *reinterpret_cast<Told*>(channel_.segment().buffer(r, buffer_));
  }

  Channel& channel_;
  PeerMemory peers_;
  std::vector<Arrays> arrays_;      // by rank
  std::vector<SharedPlace> files_;  // by rank: those that all ranks have tried to map
  bool agreed_ = false;             // and could
  int buffer_ = 0;
};

}  // namespace mxlite::shm
