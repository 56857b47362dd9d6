// Collectives on arrays in memory that all ranks of the group have mapped. They use no buffers, so
// each byte is read and written once.
#pragma once
#include <span>

#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/comm/shm/channel.h"
#include "cpp/kvstore/comm/shm/peer_memory.h"

namespace mxlite::shm {

// Smaller arrays use buffers, because buffers stay in the caches.
inline constexpr size_t kDirectBytes = size_t{1} << 20;

class DirectCollectives {
 public:
  explicit DirectCollectives(Channel& channel)
      : channel_(channel),
        peers_(channel.size()),
        arrays_(static_cast<size_t>(channel.size())),
        files_(arrays_.size()) {}

  // Call inside an operation of the channel on all ranks. Returns false on all ranks without any
  // effect if the arrays of some rank are not in shared memory. Arrays move to shared memory when
  // they are used repeatedly.
  bool all_reduce(const void* input, void* output, int64_t count, DType dtype, ReduceOp op);
  // The output must contain this rank's part.
  bool all_gather(const void* input, void* output, std::span<const size_t> bytes);
  // The input and output must not overlap. A rank whose input would overlap its output passes null.
  bool reduce_scatter(const void* input, void* output, std::span<const size_t> bytes, DType dtype,
                      ReduceOp op);
  bool broadcast(void* data, size_t bytes, int root);

 private:
  // Data that a rank publishes at the start of its buffer.
  struct Published {
    SharedPlace input, output;
    std::atomic<uint32_t> unreachable{0};         // used only in rank 0's buffer: nonzero if a rank
                                                  // cannot map a file
    alignas(64) std::atomic<int64_t> claimed{0};  // used only in rank 0's buffer: number of claimed
                                                  // chunks
  };
  struct Arrays {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  // `output` is null if other ranks only read from this rank. `root` is the only rank whose input
  // is used, or -1 if the inputs of all ranks are used.
  bool exchange(const void* input, size_t input_bytes, void* output, size_t output_bytes, int root);
  bool agree(int first, int last);
  void finish();
  Published& published(int r) const {
    return *reinterpret_cast<Published*>(channel_.segment().buffer(r, buffer_));
  }

  Channel& channel_;
  PeerMemory peers_;
  std::vector<Arrays> arrays_;      // indexed by rank
  std::vector<SharedPlace> files_;  // for each rank: the last file that all ranks tried to map
  bool agreed_ = false;             // whether all ranks have mapped files_
  int buffer_ = 0;
};

}  // namespace mxlite::shm
