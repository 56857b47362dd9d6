#include "cpp/graph/deferred_memory.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "cpp/base/error.h"

namespace mxlite::graph {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const Storage*, Block> blocks;  // guarded by mutex
};
Registry& registry() {
  static auto* all = new Registry;  // leaked: arrays may outlive static destructors
  return *all;
}

}  // namespace

StorageRef make_deferred_memory(Device device, size_t bytes) {
  const auto self = std::make_shared<const Storage*>(nullptr);
  StorageRef storage = Storage::wrap(device, nullptr, bytes, [self] {
    Registry& r = registry();
    Block block;
    {
      std::lock_guard lock(r.mutex);
      const auto it = r.blocks.find(*self);
      block = it->second;
      r.blocks.erase(it);
    }
    if (block.data) cpu_allocator().free(block);
  });
  *self = storage.get();
  std::lock_guard lock(registry().mutex);
  registry().blocks[*self] = {nullptr, bytes};
  return storage;
}

bool is_deferred(const Storage& storage) {
  if (storage.data()) return false;
  std::lock_guard lock(registry().mutex);
  return registry().blocks.count(&storage) != 0;
}

void* materialize(const Storage& storage) {
  Registry& r = registry();
  size_t bytes = 0;
  {
    std::lock_guard lock(r.mutex);
    const auto it = r.blocks.find(&storage);
    MX_ASSERT(it != r.blocks.end());
    if (it->second.data) return it->second.data;
    bytes = it->second.bytes;
  }
  const Block block = cpu_allocator().allocate(bytes);
  std::lock_guard lock(r.mutex);
  r.blocks[&storage] = block;
  return block.data;
}

}  // namespace mxlite::graph
