#include "cpp/graph/output_memory.h"

#include <atomic>
#include <set>

namespace mxlite::graph {
namespace {

constexpr size_t kMostPerSlot = 3;  // gradients of the last step live while the next are computed

struct Living {
  std::mutex mutex;
  std::set<OutputMemory*> all;  // guarded by mutex
};
Living& living() {
  static Living& instance = *new Living;  // leaked: executables may outlive static destructors
  return instance;
}

// Only this object holds the storage, so no other thread can start to hold it meanwhile.
bool is_idle(const StorageRef& storage) {
  if (storage->use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
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

NDArrayRef OutputMemory::take(size_t slot, const TensorSpec& spec, Device device) {
  {
    std::lock_guard lock(mutex_);
    if (blocks_.size() <= slot) blocks_.resize(slot + 1);
    for (const StorageRef& block : blocks_[slot])
      if (is_idle(block)) return NDArray::from_storage(block, spec);
  }
  // Called without the lock: when memory has run out, release is called.
  NDArrayRef array = NDArray::empty(spec, device);
  std::lock_guard lock(mutex_);
  if (blocks_[slot].size() < kMostPerSlot) blocks_[slot].push_back(array->storage());
  return array;
}

void OutputMemory::release() {
  std::vector<StorageRef> dropped;  // freed without the lock
  std::lock_guard lock(mutex_);
  for (auto& slot : blocks_)
    for (size_t i = 0; i < slot.size();) {
      if (!is_idle(slot[i])) {
        ++i;
        continue;
      }
      dropped.push_back(std::move(slot[i]));
      slot.erase(slot.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

void OutputMemory::release_all() {
  std::lock_guard lock(living().mutex);
  for (OutputMemory* memory : living().all) memory->release();
}

}  // namespace mxlite::graph
