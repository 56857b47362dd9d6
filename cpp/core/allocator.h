// The interface of allocators, and the allocator of host memory. Its blocks are 64-byte aligned and
// cached by size class.
#pragma once
#include <cstddef>

namespace mxlite {

struct MemoryStats {
  size_t in_use = 0, cached = 0, peak = 0, limit = 0;  // bytes
};

struct Block {
  void* data = nullptr;
  size_t bytes = 0;  // requested size; the block may be larger
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // If memory is short, empties the cache and retries once. If memory is still short, throws
  // kOutOfMemory with byte counts.
  virtual Block allocate(size_t bytes) = 0;
  virtual void free(Block block) noexcept = 0;
  virtual void release_cached() = 0;
  virtual MemoryStats stats() const = 0;
};

Allocator& cpu_allocator();
// Called before and after fork(), so that the allocator's lock is free in the child.
void lock_cpu_allocator();
void unlock_cpu_allocator();

}  // namespace mxlite
