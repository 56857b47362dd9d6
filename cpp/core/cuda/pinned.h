// Page-locked host memory in blocks whose sizes are powers of two. Blocks are cached, because
// locking pages takes longer than copying.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "cpp/core/allocator.h"

namespace mxlite::cuda {

class PinnedAllocator final : public Allocator {
 public:
  // Locks pages through this device's context. Call after the process has chosen its device.
  void use_device(int device);
  Block allocate(size_t bytes) override;
  void free(Block block) noexcept override;
  void release_cached() override;
  MemoryStats stats() const override;

 private:
  mutable std::mutex mutex_;
  int device_ = 0;  // guarded by mutex_, like all members
  bool has_device_ = false;
  std::map<size_t, std::vector<void*>> cached_;
  MemoryStats stats_;
};

}  // namespace mxlite::cuda
