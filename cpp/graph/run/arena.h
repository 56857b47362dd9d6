// Memory for intermediate values. All executables of a device share one block, because they run one
// after another on the device's worker. (All CPU devices share one worker.) The block grows to the
// largest request and is freed with the last executable.
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

  // Memory for one run. If another run uses the block (because another thread runs a small
  // executable inline), allocates separate memory.
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
  // If `keep` is true, caches the block for the next allocation of this size.
  void free(Block block, bool keep = true) const noexcept;

  const Device device_;
  std::mutex mutex_;
  Block block_;  // guarded by mutex_
};

}  // namespace mxlite::graph
