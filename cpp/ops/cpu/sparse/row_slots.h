// Where a growing table keeps the row of each id: a hash table with open addressing.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace mxlite::sparse {

class RowSlots {
 public:
  RowSlots() : index_(1 << 10, kNone) {}

  int64_t find(int64_t id) const;  // -1: not there
  // Adds an id that is not there, to a free slot if there is one, else to a new one.
  int64_t add(int64_t id);
  void use(int64_t slot, int64_t times);  // counts
  // Removes the `count` rows with the fewest uses, smaller ids first among equals, but none of
  // `kept` (slots), and halves the uses of all others. Returns the slots that became free.
  std::vector<int64_t> evict(int64_t count, std::span<const int64_t> kept);

  int64_t size() const { return end() - static_cast<int64_t>(free_.size()); }
  int64_t end() const { return static_cast<int64_t>(ids_.size()); }
  int64_t id(int64_t slot) const { return ids_[static_cast<size_t>(slot)]; }  // -1: free
  int64_t uses(int64_t slot) const { return uses_[static_cast<size_t>(slot)]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  size_t place_of(int64_t id) const;  // in index_: of the id, or the empty one for it
  void rebuild(size_t places);

  std::vector<uint32_t> index_;  // slots; the size is a power of two
  std::vector<int64_t> ids_;     // by slot
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> free_;
};

}  // namespace mxlite::sparse
