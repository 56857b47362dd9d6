#include "cpp/graph/deferred_memory.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "cpp/base/error.h"

namespace mxlite::graph {
namespace {

struct Deferred {
  // Memory of the CPU's allocator; unused if `provide` gives the memory.
  Block block;
  StorageRef provided;
  ProvideFn provide;
};
struct Registry {
  std::mutex mutex;
  std::unordered_map<const Storage*, Deferred> all;  // guarded by mutex
};
Registry& registry() {
  static auto* all = new Registry;  // leaked: arrays may outlive static destructors
  return *all;
}

}  // namespace

StorageRef make_deferred_memory(Device device, size_t bytes, ProvideFn provide) {
  const auto self = std::make_shared<const Storage*>(nullptr);
  StorageRef storage = Storage::wrap(device, nullptr, bytes, [self] {
    Registry& r = registry();
    Deferred gone;  // released without the lock
    {
      std::lock_guard lock(r.mutex);
      const auto it = r.all.find(*self);
      gone = std::move(it->second);
      r.all.erase(it);
    }
    if (gone.block.data) cpu_allocator().free(gone.block);
  });
  *self = storage.get();
  std::lock_guard lock(registry().mutex);
  registry().all[*self] = {{nullptr, bytes}, nullptr, std::move(provide)};
  return storage;
}

bool is_deferred(const Storage& storage) {
  if (storage.data()) return false;
  std::lock_guard lock(registry().mutex);
  return registry().all.count(&storage) != 0;
}

void* materialize(const Storage& storage) {
  Registry& r = registry();
  size_t bytes = 0;
  ProvideFn provide;
  {
    std::lock_guard lock(r.mutex);
    const auto it = r.all.find(&storage);
    MX_ASSERT(it != r.all.end());
    const Deferred& known = it->second;
    if (known.provided) return known.provided->data();
    if (known.block.data) return known.block.data;
    bytes = known.block.bytes;
    provide = known.provide;
  }
  if (provide) {
    StorageRef memory = provide();
    std::lock_guard lock(r.mutex);
    Deferred& known = r.all.at(&storage);
    known.provide = nullptr;
    known.provided = std::move(memory);
    return known.provided->data();
  }
  const Block block = cpu_allocator().allocate(bytes);
  std::lock_guard lock(r.mutex);
  r.all.at(&storage).block = block;
  return block.data;
}

}  // namespace mxlite::graph
