#include "cpp/graph/arena.h"

namespace mxlite::graph {

std::shared_ptr<Arena> Arena::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Arena> current;  // guarded by mutex
  std::lock_guard lock(mutex);
  std::shared_ptr<Arena> arena = current.lock();
  if (!arena) current = arena = std::make_shared<Arena>();
  return arena;
}

Arena::~Arena() {
  if (block_.data) cpu_allocator().free(block_);
}

Arena::Use::Use(Arena& arena, size_t bytes) {
  if (bytes == 0) return;
  lock_ = std::unique_lock(arena.mutex_, std::try_to_lock);
  Block& block = lock_ ? arena.block_ : own_;
  if (block.bytes < bytes) {
    if (block.data) cpu_allocator().free(block);
    block = {};
    block = cpu_allocator().allocate(bytes);
  }
  data_ = static_cast<std::byte*>(block.data);
}

Arena::Use::~Use() {
  if (own_.data) cpu_allocator().free(own_);
}

}  // namespace mxlite::graph
