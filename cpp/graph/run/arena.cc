#include "cpp/graph/run/arena.h"

#include <map>

#include "cpp/core/accelerator.h"
#include "cpp/core/cpu/large_blocks.h"
#include "cpp/engine/engine.h"
#include "cpp/ndarray/memory_profile.h"

namespace mxlite::graph {

std::shared_ptr<Arena> Arena::shared(Device device) {
  static std::mutex mutex;
  static auto& current = *new std::map<int, std::weak_ptr<Arena>>;  // guarded by mutex
  const bool gpu = device.type == DeviceType::kCUDA;
  std::lock_guard lock(mutex);
  std::weak_ptr<Arena>& known = current[gpu ? device.index : -1];
  std::shared_ptr<Arena> arena = known.lock();
  if (!arena) known = arena = std::make_shared<Arena>(gpu ? device : Device{});
  return arena;
}

Arena::~Arena() {
  if (block_.data) free(block_);
}

// Allocates GPU memory for the compute stream, because the runs use it in that stream's order.
Block Arena::allocate(size_t bytes) const {
  const Block block = device_.type == DeviceType::kCUDA
                          ? accelerator()->allocate(device_.index, bytes, StreamKind::kCompute)
                          : cpu_allocator().allocate(bytes);
  try {
    const MemoryScope scope("activations that executables share");
    attribute_memory(device_, block.data, bytes);
  } catch (...) {
    free(block, /*keep=*/false);
    throw;
  }
  return block;
}

void Arena::free(Block block, bool keep) const noexcept {
  forget_memory(block.data);
  if (device_.type != DeviceType::kCUDA)
    keep ? cpu_allocator().free(block) : discard(block);
  else if (!engine::in_forked_child())
    accelerator()->free(device_.index, block, StreamKind::kCompute);
}

Arena::Use::Use(Arena& arena, size_t bytes) : arena_(arena) {
  if (bytes == 0) return;
  lock_ = std::unique_lock(arena.mutex_, std::try_to_lock);
  Block& block = lock_ ? arena.block_ : own_;
  if (block.bytes < bytes) {
    if (block.data) arena.free(block, /*keep=*/false);
    block = {};
    block = arena.allocate(bytes);
  }
  data_ = static_cast<std::byte*>(block.data);
}

Arena::Use::~Use() {
  if (own_.data) arena_.free(own_);
}

}  // namespace mxlite::graph
