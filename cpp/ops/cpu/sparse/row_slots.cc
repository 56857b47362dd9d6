#include "cpp/ops/cpu/sparse/row_slots.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "cpp/base/error.h"
#include "cpp/ops/cpu/sparse/embedding_hash.h"

namespace mxlite::sparse {

size_t RowSlots::place_of(int64_t id) const {
  const size_t mask = index_.size() - 1;
  size_t at = mixed(static_cast<uint64_t>(id)) & mask;
  while (index_[at] != kNone && ids_[index_[at]] != id) at = (at + 1) & mask;
  return at;
}

int64_t RowSlots::find(int64_t id) const {
  const uint32_t slot = index_[place_of(id)];
  return slot == kNone ? int64_t{-1} : int64_t{slot};
}

int64_t RowSlots::add(int64_t id) {
  if (2 * static_cast<size_t>(size() + 1) > index_.size()) rebuild(2 * index_.size());
  uint32_t slot = 0;
  if (free_.empty()) {
    MX_CHECK_KIND(ids_.size() < kNone, ErrorKind::kNotSupported,
                  "ShardedEmbedding: a growing table must have less than 2^32 rows on a rank");
    slot = static_cast<uint32_t>(ids_.size());
    ids_.push_back(-1);
    uses_.push_back(0);
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  index_[place_of(id)] = slot;
  ids_[slot] = id;
  uses_[slot] = 0;
  return slot;
}

void RowSlots::use(int64_t slot, int64_t times) {
  uint32_t& uses = uses_[static_cast<size_t>(slot)];
  uses =
      static_cast<uint32_t>(std::min<int64_t>(uses + times, std::numeric_limits<uint32_t>::max()));
}

std::vector<int64_t> RowSlots::evict(int64_t count, std::span<const int64_t> kept) {
  std::vector<bool> stays(ids_.size());
  for (const int64_t slot : kept)
    if (slot >= 0) stays[static_cast<size_t>(slot)] = true;
  std::vector<int64_t> rarest;
  for (size_t slot = 0; slot < ids_.size(); ++slot)
    if (ids_[slot] >= 0 && !stays[slot]) rarest.push_back(static_cast<int64_t>(slot));
  count = std::min(count, static_cast<int64_t>(rarest.size()));
  const auto rank_of = [&](int64_t slot) { return std::tuple(uses(slot), id(slot)); };
  std::nth_element(rarest.begin(), rarest.begin() + count, rarest.end(),
                   [&](int64_t a, int64_t b) { return rank_of(a) < rank_of(b); });
  rarest.resize(static_cast<size_t>(count));
  std::sort(rarest.begin(), rarest.end(), std::greater<>());  // low slots are taken first
  for (const int64_t slot : rarest) {
    ids_[static_cast<size_t>(slot)] = -1;
    free_.push_back(static_cast<uint32_t>(slot));
  }
  for (uint32_t& uses : uses_) uses /= 2;
  rebuild(index_.size());
  return rarest;
}

void RowSlots::rebuild(size_t places) {
  index_.assign(places, kNone);
  for (size_t slot = 0; slot < ids_.size(); ++slot)
    if (ids_[slot] >= 0) index_[place_of(ids_[slot])] = static_cast<uint32_t>(slot);
}

}  // namespace mxlite::sparse
