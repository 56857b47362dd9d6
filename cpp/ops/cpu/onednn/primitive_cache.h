// A bounded cache of the prepared calls of all operators, shared by all threads. Creating a
// primitive takes up to milliseconds, finding it a fraction of a microsecond.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "cpp/base/small_vector.h"
#include "cpp/core/shape.h"

namespace mxlite::onednn {

// Key of a prepared call: a tag that is unique per kernel, then numbers, shapes and types. Every
// key includes the thread count, because oneDNN divides the work when a primitive is created.
class Key {
 public:
  explicit Key(const char* tag);
  Key& add(int64_t v) {
    words_.push_back(v);
    return *this;
  }
  Key& add(double v);
  Key& add(std::span<const int64_t> values) {
    words_.push_back(static_cast<int64_t>(values.size()));
    words_.append(values.begin(), values.end());
    return *this;
  }
  Key& add(const Shape& s) { return add(s.span()); }
  Key& add(const TensorSpec& s) { return add(s.shape).add(static_cast<int64_t>(s.dtype)); }
  bool operator==(const Key&) const = default;
  size_t hash() const;

 private:
  SmallVector<int64_t, 40> words_;
};

namespace detail {
std::shared_ptr<const void> cache_find(const Key& key);
void cache_insert(const Key& key, std::shared_ptr<const void> value);
}  // namespace detail

// Returns the cached value for key, or calls make() on a miss (two threads may do so at the same
// time). If the cache is full, drops the least recently used entry; entries that callers hold stay
// valid.
auto cached(const Key& key, auto&& make) {
  using T = decltype(make());
  if (auto found = detail::cache_find(key)) return std::static_pointer_cast<const T>(found);
  std::shared_ptr<const T> made = std::make_shared<const T>(make());
  detail::cache_insert(key, made);
  return made;
}

size_t primitive_cache_size();
void clear_primitive_cache();

}  // namespace mxlite::onednn
