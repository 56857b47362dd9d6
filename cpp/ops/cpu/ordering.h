// Sorting by keys. Values become unsigned keys of the same order, so that one radix sort serves all
// dtypes: keys of up to 32 bits are joined with the index to one 64-bit number, wider ones to a
// pair.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpp/core/dtype.h"

namespace mxlite::cpu {

template <class T>
using KeyOf = std::conditional_t<sizeof(ComputeType<T>) == 8, uint64_t, uint32_t>;

// NaN is the largest; -0 equals 0.
template <class T>
KeyOf<T> order_key(T raw) {
  using Key = KeyOf<T>;
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  const auto value = static_cast<ComputeType<T>>(raw);
  if constexpr (std::is_floating_point_v<ComputeType<T>>) {
    const Key bits = std::bit_cast<Key>(value + 0);
    const Key key = bits ^ (bits & kSign ? ~Key(0) : kSign);
    return value != value ? std::numeric_limits<Key>::max() : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<std::make_signed_t<Key>>(value)) ^ kSign;
  } else {
    return static_cast<Key>(value);
  }
}

// Largest value first, NaN behind everything.
template <class T>
KeyOf<T> falling_key(T raw) {
  const auto value = static_cast<ComputeType<T>>(raw);
  return value != value ? std::numeric_limits<KeyOf<T>>::max()
                        : static_cast<KeyOf<T>>(~order_key(raw));
}

struct NarrowEntry {
  uint64_t key_and_index;
  static NarrowEntry make(uint64_t key, int64_t i) {
    return {key << 32 | static_cast<uint32_t>(i)};
  }
  uint64_t key() const { return key_and_index >> 32; }
  int64_t index() const { return static_cast<uint32_t>(key_and_index); }
  static constexpr int kKeyBits = 32;
  bool operator<(const NarrowEntry& o) const { return key_and_index < o.key_and_index; }
};
struct WideEntry {
  uint64_t word;
  int64_t i;
  static WideEntry make(uint64_t key, int64_t i) { return {key, i}; }
  uint64_t key() const { return word; }
  int64_t index() const { return i; }
  static constexpr int kKeyBits = 64;
  bool operator<(const WideEntry& o) const { return word != o.word ? word < o.word : i < o.i; }
};
template <class T>
using EntryOf = std::conditional_t<sizeof(KeyOf<T>) == 8, WideEntry, NarrowEntry>;

constexpr int64_t kRadixSortAbove = 96;  // fewer entries than this sort faster by comparing

// One stable counting pass per digit of the key, least significant first; digits that all entries
// share cost nothing.
template <int kDigitBits, class Entry>
Entry* radix_passes(Entry* from, Entry* to, int64_t count) {
  constexpr int kPasses = (Entry::kKeyBits + kDigitBits - 1) / kDigitBits;
  constexpr uint64_t kMask = (1u << kDigitBits) - 1;
  static_assert(kDigitBits < 16);
  std::array<std::array<uint32_t, kMask + 1>, kPasses> counts{};
  for (int64_t i = 0; i < count; ++i) {
    uint64_t key = from[i].key();
    for (int pass = 0; pass < kPasses; ++pass, key >>= kDigitBits) ++counts[pass][key & kMask];
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    auto& places = counts[pass];
    const int shift = pass * kDigitBits;
    if (places[from[0].key() >> shift & kMask] == static_cast<uint64_t>(count)) continue;
    uint32_t sum = 0;
    for (uint32_t& place : places) place = (sum += place) - place;
    for (int64_t i = 0; i < count; ++i) to[places[from[i].key() >> shift & kMask]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

// Sorts entries that stand in the order of their indices; `room` takes as many. Returns where the
// result lies: in one of the two.
template <class Entry>
Entry* sort_entries(Entry* entries, Entry* room, int64_t count) {
  if (count <= kRadixSortAbove || count > std::numeric_limits<uint32_t>::max()) {
    std::sort(entries, entries + count);
    return entries;
  }
  // Few entries do not pay for large tables; many leave the caches, where 256 places are faster.
  return count >= 4096 && count < 524288 ? radix_passes<11>(entries, room, count)
                                         : radix_passes<8>(entries, room, count);
}

// Sorts the first k of them, in `entries` or `room` as above.
template <class Entry>
Entry* sort_first(Entry* entries, Entry* room, int64_t count, int64_t k) {
  if (k > count / 8) return sort_entries(entries, room, count);
  std::nth_element(entries, entries + k, entries + count);
  std::sort(entries, entries + k);
  return entries;
}

}  // namespace mxlite::cpu
