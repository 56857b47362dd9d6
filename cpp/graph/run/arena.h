// Memory of intermediate values: one block per device that all executables share, because they
// run one after another on the device's worker (all CPU devices share a worker). The block grows to
// the largest need and is freed with the last executable.
#pragma once
#include <memory>
#include <mutex>

#include "cpp/core/allocator.h"
#include "cpp/core/device.h"

namespace mxlite::graph {

class Arena {
 public:
  static std::shared_ptr<Arena> shared(Device device);
  explicit Arena(Device device) : device_(device) {}
  ~Arena();

  // Takes memory for one run. If a run is in progress (another thread runs a small executable
  // inline), takes a block of its own.
  class Use {
   public:
    Use(Arena& arena, size_t bytes);
    ~Use();
    Use& operator=(Use&&) = delete;  // neither copied nor moved
    std::byte* data() const { return data_; }

   private:
    Arena& arena_;
    std::unique_lock<std::mutex> lock_;
    Block own_;
    std::byte* data_ = nullptr;
  };

 private:
  Block allocate(size_t bytes) const;
  // keep: caches the block for the next allocation of this size.
  void free(Block block, bool keep = true) const noexcept;

  const Device device_;
  std::mutex mutex_;
  Block block_;  // guarded by mutex_
};

}  // namespace mxlite::graph
