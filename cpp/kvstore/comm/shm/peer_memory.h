// Maps the shared arrays of other ranks into this process.
#pragma once
#include <cstddef>
#include <vector>

#include "cpp/core/cpu/shared_memory.h"
#include "cpp/kvstore/comm/shm/shared_segment.h"

namespace mxlite::shm {

class PeerMemory {
 public:
  explicit PeerMemory(int ranks) : files_(static_cast<size_t>(ranks)) {}
  ~PeerMemory();
  PeerMemory& operator=(PeerMemory&&) = delete;  // neither copied nor moved

  // Maps rank r's file on the first call. Returns whether it is mapped.
  bool reach(int r, const SharedPlace& place);
  std::byte* at(int r, const SharedPlace& place) const {
    return files_[static_cast<size_t>(r)].memory + place.offset;
  }

 private:
  struct File {
    SharedPlace place;
    std::byte* memory = nullptr;  // null if the file cannot be mapped
  };
  static void unmap(File& file) noexcept;

  std::vector<File> files_;
};

}  // namespace mxlite::shm
