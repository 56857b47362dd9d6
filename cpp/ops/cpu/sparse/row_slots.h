// Maps the ids of a growing table to the slots of their rows: a hash table with open addressing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace mxlite::sparse {

class RowSlots {
 public:
  RowSlots() : index_(1 << 10, kNone) {}

  int64_t find(int64_t id) const;  // returns -1 if the id is unknown
  // Adds an unknown id and returns its slot: a free slot if there is one, else a new one.
  int64_t add(int64_t id);
  void use(int64_t slot, int64_t times);  // adds to the uses of a slot
  // Removes the `count` rows with the fewest uses (among equals, rows with smaller ids), except the
  // slots in `kept`, and halves the uses of all other rows. Returns the slots that became free.
  std::vector<int64_t> evict(int64_t count, std::span<const int64_t> kept);

  int64_t size() const { return end() - static_cast<int64_t>(free_.size()); }
  int64_t end() const { return static_cast<int64_t>(ids_.size()); }
  // Returns -1 for a free slot.
  int64_t id(int64_t slot) const { return ids_[static_cast<size_t>(slot)]; }
  int64_t uses(int64_t slot) const { return uses_[static_cast<size_t>(slot)]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Returns the id's position in index_, or the empty position where it belongs.
  size_t place_of(int64_t id) const;
  void rebuild(size_t places);

  std::vector<uint32_t> index_;  // slots; the size is a power of two
  std::vector<int64_t> ids_;     // by slot
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> free_;
};

}  // namespace mxlite::sparse
