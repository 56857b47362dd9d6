// Sorting by keys. Values are converted to unsigned keys of the same order, so that one radix sort
// serves all dtypes. Keys of up to 32 bits are combined with the index in one 64-bit number, wider
// keys in a pair.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpp/core/dtype.h"
#include "cpp/core/parallel.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/cpu/sort_words.h"

namespace mxlite::cpu {

template <class T>
using KeyOf = std::conditional_t<sizeof(ComputeType<T>) == 8, uint64_t, uint32_t>;

// Returns the key for ascending order, where NaN is last. -0 equals 0 unless `signed_zeros`, which
// puts -0 before 0.
template <class T, bool signed_zeros = false>
KeyOf<T> order_key(T raw) {
  using Key = KeyOf<T>;
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  const auto value = static_cast<ComputeType<T>>(raw);
  if constexpr (std::is_floating_point_v<ComputeType<T>>) {
    const Key bits = std::bit_cast<Key>(signed_zeros ? value : value + 0);
    const Key key = bits ^ (bits & kSign ? ~Key(0) : kSign);
    return value != value ? std::numeric_limits<Key>::max() : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key>(static_cast<std::make_signed_t<Key>>(value)) ^ kSign;
  } else {
    return static_cast<Key>(value);
  }
}

// Returns the value of a key. For floating types, -0 becomes 0 unless the key was made with
// `signed_zeros`.
template <class T>
T value_of_key(KeyOf<T> key) {
  using Key = KeyOf<T>;
  using Value = ComputeType<T>;
  constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);
  if constexpr (std::is_floating_point_v<Value>) {
    return static_cast<T>(std::bit_cast<Value>(key & kSign ? key ^ kSign : static_cast<Key>(~key)));
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<std::make_signed_t<Key>>(key ^ kSign));
  } else {
    return static_cast<T>(key);
  }
}

// Returns the key for descending order, with NaN last.
template <class T>
KeyOf<T> falling_key(T raw) {
  const auto value = static_cast<ComputeType<T>>(raw);
  return value != value ? std::numeric_limits<KeyOf<T>>::max()
                        : static_cast<KeyOf<T>>(~order_key(raw));
}

// A key without index, for sorts that return only values.
template <class Key>
struct KeyEntry {
  using Word = Key;
  Word word;
  static KeyEntry make(Key key, int64_t) { return {key}; }
  uint64_t key() const { return word; }
  static constexpr int kKeyBits = sizeof(Key) * 8;
  bool operator<(const KeyEntry& o) const { return word < o.word; }
};
struct NarrowEntry {
  using Word = uint64_t;
  Word key_and_index;
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

// Up to this many entries are sorted by counting, for each entry, how many entries are smaller.
constexpr int64_t kFewEntries = 96;

// The sorted position of an entry is the number of smaller entries. Does not branch on values.
template <class Entry>
Entry* sort_few(const Entry* entries, Entry* to, int64_t count) {
  // Signed numbers of the key's width, which vector instructions can compare and count.
  using Key = std::conditional_t<Entry::kKeyBits == 32, int32_t, int64_t>;
  Key keys[kFewEntries];
  for (int64_t i = 0; i < count; ++i)
    keys[i] = static_cast<Key>(entries[i].key() ^ (uint64_t{1} << (Entry::kKeyBits - 1)));
  for (int64_t i = 0; i < count; ++i) {
    const Key key = keys[i];
    Key place = 0;
    for (int64_t j = 0; j < i; ++j) place += static_cast<Key>(keys[j] <= key);
    for (int64_t j = i + 1; j < count; ++j) place += static_cast<Key>(keys[j] < key);
    to[place] = entries[i];
  }
  return to;
}

// LSD radix sort: one stable counting pass per digit of the key, least significant first. Skips
// digits that are equal in all entries.
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

// Sorts entries, which must be in the order of their indices. `room` has the same size. Returns
// `entries` or `room`, whichever contains the result.
template <class Entry>
Entry* sort_entries(Entry* entries, Entry* room, int64_t count) {
  if constexpr (std::is_same_v<Entry, KeyEntry<uint32_t>>)
    if (has_avx512()) {
      sort_words(&entries->word, &room->word, count, 1);
      return entries;
    }
  if (count <= kFewEntries) return sort_few(entries, room, count);
  if (count > std::numeric_limits<uint32_t>::max()) {
    std::sort(entries, entries + count);
    return entries;
  }
  // Large tables are slower for few entries. For many entries, which exceed the caches, 256 bins
  // are faster.
  return count >= 4096 && count < 524288 ? radix_passes<11>(entries, room, count)
                                         : radix_passes<8>(entries, room, count);
}

// Returns how many of the first `count` entries of the merged result come from `one`.
template <class Entry>
int64_t split_merge(const Entry* one, int64_t one_size, const Entry* other, int64_t other_size,
                    int64_t count) {
  int64_t low = std::max<int64_t>(0, count - other_size), high = std::min(count, one_size);
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (other[count - middle - 1] < one[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Like sort_entries, but divides the work: threads sort parts and then merge pairs of sorted parts.
// Entries without indices may have any order.
template <class Entry>
Entry* sort_in_parallel(Entry* entries, Entry* room, int64_t count, int threads) {
  if (threads == 1) return sort_entries(entries, room, count);
  if constexpr (std::is_same_v<Entry, KeyEntry<uint32_t>>)
    if (has_avx512()) {
      sort_words(&entries->word, &room->word, count, threads);
      return entries;
    }
  const auto parts = static_cast<int64_t>(std::bit_floor(static_cast<unsigned>(threads)));
  const auto begin_of = [=](int64_t part) { return count * part / parts; };
  run_shares(static_cast<int>(parts), [&](int64_t part) {
    const int64_t begin = begin_of(part), size = begin_of(part + 1) - begin;
    Entry* const own = entries + begin;
    if (const Entry* sorted = sort_entries(own, room + begin, size); sorted != own)
      std::copy_n(sorted, size, own);
  });
  for (int64_t merged = 1; merged < parts; merged *= 2) {
    const int64_t pairs = parts / (2 * merged), shares = (threads + pairs - 1) / pairs;
    run_shares(static_cast<int>(pairs * shares), [&](int64_t task) {
      const int64_t first = task / shares * 2 * merged, share = task % shares;
      const int64_t begin = begin_of(first), middle = begin_of(first + merged),
                    end = begin_of(first + 2 * merged);
      const Entry *const one = entries + begin, *const other = entries + middle;
      const int64_t one_size = middle - begin, other_size = end - middle;
      const int64_t from = (end - begin) * share / shares,
                    to = (end - begin) * (share + 1) / shares;
      int64_t i = split_merge(one, one_size, other, other_size, from), j = from - i;
      const int64_t i_end = split_merge(one, one_size, other, other_size, to), j_end = to - i_end;
      Entry* result = room + begin + from;
      while (i < i_end && j < j_end) {  // compiles to moves, without a branch per entry
        const bool second = other[j] < one[i];
        *result++ = second ? other[j] : one[i];
        j += second;
        i += !second;
      }
      result = std::copy(one + i, one + i_end, result);
      std::copy(other + j, other + j_end, result);
    });
    std::swap(entries, room);
  }
  return entries;
}

// Returns whether selecting the first k of `count` entries is faster than sorting all.
inline bool selects(int64_t count, int64_t k) { return count > kFewEntries && k <= count / 32; }

// Calls fn for the entries with keys below `limit`, which fn may lower. Tests a block of entries at
// once, so that blocks without such entries need no branch per entry.
template <class EntryAt, class F>
void for_each_below(const uint64_t& limit, EntryAt entry_at, int64_t first, int64_t count, F fn) {
  constexpr int64_t kBlock = 32;
  for (int64_t begin = first; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    unsigned any = 0;
    for (int64_t i = begin; i < end; ++i) any |= static_cast<unsigned>(entry_at(i).key() < limit);
    if (!any) continue;
    for (int64_t i = begin; i < end; ++i)
      if (const auto entry = entry_at(i); entry.key() < limit) fn(entry);
  }
}

// Selects and sorts the first k of entry_at(0), ..., entry_at(count - 1), whose indices ascend.
// Requires selects(count, k). `best` has room for count / 8 entries; entry_at may read from it. Of
// equal keys the first is taken, so later entries need a key below the largest selected key.
template <class Entry, class EntryAt>
void select_first(EntryAt entry_at, int64_t count, int64_t k, Entry* best) {
  constexpr int64_t kInsertUpTo = 24;  // for larger k, insertion is slower than selection
  const int64_t capacity = k <= kInsertUpTo ? k : 3 * k;
  for (int64_t i = 0; i < capacity; ++i) best[i] = entry_at(i);
  uint64_t limit = 0;
  if (k <= kInsertUpTo) {
    std::sort(best, best + k);
    limit = best[k - 1].key();
    for_each_below(limit, entry_at, k, count, [&](const Entry& entry) {
      int64_t place = k - 1;
      for (; place > 0 && entry.key() < best[place - 1].key(); --place)
        best[place] = best[place - 1];
      best[place] = entry;
      limit = best[k - 1].key();
    });
    return;
  }
  int64_t size = capacity;
  const auto shrink = [&] {
    std::nth_element(best, best + (k - 1), best + size);
    limit = best[k - 1].key();
    size = k;
  };
  shrink();
  for_each_below(limit, entry_at, capacity, count, [&](const Entry& entry) {
    best[size++] = entry;
    if (size == capacity) shrink();
  });
  std::sort(best, best + size);
}

// Sorts and returns the first k entries, in `entries` or `room` as above.
template <class Entry>
Entry* sort_first(Entry* entries, Entry* room, int64_t count, int64_t k) {
  if (!selects(count, k)) return sort_entries(entries, room, count);
  select_first([=](int64_t i) { return entries[i]; }, count, k, entries);
  return entries;
}

}  // namespace mxlite::cpu
