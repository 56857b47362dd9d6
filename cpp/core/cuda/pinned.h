// Page-locked host memory in powers of two, kept for reuse: locking pages costs more than copying.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "cpp/core/allocator.h"

namespace mxlite::cuda {

class PinnedAllocator final : public Allocator {
 public:
  Block allocate(size_t bytes) override;
  void free(Block block) noexcept override;
  void release_cached() override;
  MemoryStats stats() const override;

 private:
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> cached_;  // guarded by mutex_
  MemoryStats stats_;                            // guarded by mutex_
};

}  // namespace mxlite::cuda
