#include "cpp/graph/run/output_memory.h"

#include <algorithm>
#include <atomic>
#include <set>

namespace mxlite::graph {
namespace {

constexpr size_t kMostPerSlot = 3;  // old gradients stay alive while the next gradients are
                                    // computed
constexpr size_t kMostSaved = 4;    // one training step may call a network several times

struct Living {
  std::mutex mutex;
  std::set<OutputMemory*> all;  // guarded by mutex
};
Living& living() {
  static Living& instance = *new Living;  // leaked: executables may outlive static objects
  return instance;
}

// Returns whether only this object refers to the storage, so that no other thread can obtain it.
bool is_idle(const StorageRef& storage) {
  if (storage->use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}

StorageRef find_idle(const std::vector<StorageRef>& blocks) {
  const auto found = std::ranges::find_if(blocks, is_idle);
  return found == blocks.end() ? nullptr : *found;
}

}  // namespace

OutputMemory::OutputMemory() {
  set_memory_reclaimer(&OutputMemory::release_all);
  std::lock_guard lock(living().mutex);
  living().all.insert(this);
}

OutputMemory::~OutputMemory() {
  std::lock_guard lock(living().mutex);
  living().all.erase(this);
}

StorageRef OutputMemory::take_saved(size_t bytes, Device device) {
  {
    std::lock_guard lock(mutex_);
    if (StorageRef block = find_idle(saved_)) return block;
  }
  StorageRef block = Storage::allocate(device, bytes);
  std::lock_guard lock(mutex_);
  if (saved_.size() < kMostSaved) saved_.push_back(block);
  return block;
}

NDArrayRef OutputMemory::take(size_t slot, const TensorSpec& spec, Device device) {
  {
    std::lock_guard lock(mutex_);
    if (blocks_.size() <= slot) blocks_.resize(slot + 1);
    if (const StorageRef block = find_idle(blocks_[slot]))
      return NDArray::from_storage(block, spec);
  }
  // Allocates without holding the lock, because the allocator calls `release` when memory runs out.
  NDArrayRef array = NDArray::empty(spec, device);
  std::lock_guard lock(mutex_);
  if (blocks_[slot].size() < kMostPerSlot) blocks_[slot].push_back(array->storage());
  return array;
}

void OutputMemory::release() {
  std::vector<StorageRef> dropped;  // freed after the lock is released
  const auto drop_idle = [&](Blocks& blocks) {
    const auto busy = std::partition(blocks.begin(), blocks.end(), is_idle);
    dropped.insert(dropped.end(), blocks.begin(), busy);
    blocks.erase(blocks.begin(), busy);
  };
  std::lock_guard lock(mutex_);
  for (Blocks& slot : blocks_) drop_idle(slot);
  drop_idle(saved_);
}

void OutputMemory::release_all() {
  std::lock_guard lock(living().mutex);
  for (OutputMemory* memory : living().all) memory->release();
}

}  // namespace mxlite::graph
