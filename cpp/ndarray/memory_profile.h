// Bytes of arrays per Gluon block. While the profiler records memory, an allocation is attributed
// to the block whose call made it. All functions are thread-safe.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpp/core/device.h"

namespace mxlite {

struct MemoryOfBlock {
  Device device;
  std::string block;  // empty if allocated outside of all blocks
  int64_t bytes = 0, peak_bytes = 0, allocations = 0;
};

// Clears the profile and begins to attribute allocations to blocks. When attributed memory is freed
// after stop_memory_profile, the profile still counts it.
void start_memory_profile();
void stop_memory_profile();
// Returns one row per block, sorted by device, then by peak_bytes in descending order.
std::vector<MemoryOfBlock> memory_by_block();

// Push and pop the thread's stack of blocks whose calls are running.
void enter_memory_scope(const std::string& block);
void leave_memory_scope() noexcept;
class MemoryScope {
 public:
  explicit MemoryScope(const std::string& block) { enter_memory_scope(block); }
  ~MemoryScope() { leave_memory_scope(); }
  MemoryScope& operator=(MemoryScope&&) = delete;  // neither copied nor moved
};

extern std::atomic<bool> memory_profile_has_entries;
void attribute_to_block(Device device, const void* storage, size_t bytes);
void count_attributed(const void* storage) noexcept;
void forget_attribution(const void* storage) noexcept;

// Each storage calls attribute_memory when it is created (during the call of its block),
// count_memory when its memory is allocated, and forget_memory when it is destroyed. While the
// profiler is off, each call costs one relaxed load.
inline void attribute_memory(Device device, const void* storage, size_t bytes) {
  if (memory_profile_has_entries.load(std::memory_order_relaxed)) [[unlikely]]
    attribute_to_block(device, storage, bytes);
}
inline void count_memory(const void* storage) noexcept {
  if (memory_profile_has_entries.load(std::memory_order_relaxed)) [[unlikely]]
    count_attributed(storage);
}
inline void forget_memory(const void* storage) noexcept {
  if (memory_profile_has_entries.load(std::memory_order_relaxed)) [[unlikely]]
    forget_attribution(storage);
}

}  // namespace mxlite
