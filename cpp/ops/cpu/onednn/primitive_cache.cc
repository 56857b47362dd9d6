#include "cpp/ops/cpu/onednn/primitive_cache.h"

#include <bit>
#include <list>
#include <mutex>
#include <unordered_map>

#include "cpp/core/threads.h"

namespace mxlite::onednn {
namespace {

constexpr size_t kMaxEntries = 2048;

struct KeyHash {
  size_t operator()(const Key* k) const { return k->hash(); }
};
struct KeyEqual {
  bool operator()(const Key* a, const Key* b) const { return *a == *b; }
};

struct Entry {
  Key key;
  std::shared_ptr<const void> value;
};

struct Cache {
  std::mutex mutex;
  std::list<Entry> order;  // guarded by mutex; most recently used first
  // guarded by mutex; points to the keys of `order`
  std::unordered_map<const Key*, std::list<Entry>::iterator, KeyHash, KeyEqual> index;
};

Cache& cache() {
  static auto* const instance = new Cache;  // leaked: workers may outlive static destructors
  return *instance;
}

}  // namespace

Key::Key(const char* tag) {
  words_.push_back(reinterpret_cast<intptr_t>(tag));
  words_.push_back(cpu_threads());
}

Key& Key::add(double v) { return add(std::bit_cast<int64_t>(v)); }

size_t Key::hash() const {
  uint64_t h = words_.size();
  for (const int64_t w : words_) {
    h = (h ^ static_cast<uint64_t>(w)) * 0x9E3779B97F4A7C15;
    h ^= h >> 29;
  }
  return h;
}

namespace detail {

std::shared_ptr<const void> cache_find(const Key& key) {
  // A kernel looks up each key twice in a row: in `supports` and when it runs. This thread-local
  // entry serves the second look-up without a lock.
  struct Latest {
    Key key{nullptr};
    std::weak_ptr<const void> value;
  };
  thread_local Latest latest;
  if (latest.key == key)
    if (auto value = latest.value.lock()) return value;
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  const auto it = c.index.find(&key);
  if (it == c.index.end()) return nullptr;
  c.order.splice(c.order.begin(), c.order, it->second);
  latest = {key, it->second->value};
  return it->second->value;
}

void cache_insert(const Key& key, std::shared_ptr<const void> value) {
  Cache& c = cache();
  std::shared_ptr<const void> evicted;  // destroyed after the lock is released
  const std::lock_guard lock(c.mutex);
  if (c.index.contains(&key)) return;
  c.order.push_front({key, std::move(value)});
  c.index.emplace(&c.order.front().key, c.order.begin());
  if (c.order.size() > kMaxEntries) {
    c.index.erase(&c.order.back().key);
    evicted = std::move(c.order.back().value);
    c.order.pop_back();
  }
}

}  // namespace detail

size_t primitive_cache_size() {
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  return c.order.size();
}

void clear_primitive_cache() {
  Cache& c = cache();
  std::list<Entry> gone;
  const std::lock_guard lock(c.mutex);
  c.index.clear();
  gone.swap(c.order);
}

}  // namespace mxlite::onednn
