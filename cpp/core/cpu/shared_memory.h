// Memory of this process that others of the same host map, too: what collectives reduce is read and
// written by all ranks where it lies. A block keeps its address when its pages move into a file
// that only lives in memory, and when they move back.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cpp/core/cpu/large_blocks.h"

namespace mxlite {

// Where other processes find it: descriptor `file` of process `process`, checked by device and
// inode (a number means another process in another namespace).
struct SharedPlace {
  int64_t process = 0;
  uint64_t device = 0, inode = 0;
  uint64_t file_bytes = 0;
  uint64_t offset = 0;
  int32_t file = -1;  // -1: not shared
};

class SharedMemory {
 public:
  static SharedMemory& get();  // leaked: blocks outlive static objects

  // Returns the place of bytes inside one large block. A block that is asked for a second time
  // moves into the file; no other thread may write it meanwhile. The result is empty if the block
  // is not large, was seen for the first time, or the system refuses.
  SharedPlace place_of(const void* data, size_t bytes);
  // Moves the block around the address out of the file for good: others keep pages that are
  // nobody's any more. Nobody else may write it meanwhile.
  void make_private(const void* data) noexcept;
  // Before the allocator gives a block back: it is memory like any other again. False: it could not
  // be made so, and must stay.
  bool withdraw(void* data, size_t bytes) noexcept;

  size_t shared_bytes();
  void lock() { mutex_.lock(); }  // around fork()
  void unlock() { mutex_.unlock(); }

 private:
  struct Shared {
    size_t bytes;
    uint64_t offset;
  };
  // Places of one size that were given back; there is room for all that were ever taken.
  struct FreeOffsets {
    std::vector<uint64_t> offsets;
    size_t blocks = 0;  // ever taken
  };
  bool open_file();
  bool move_in(const LargeBlock& block);
  static bool move_out(std::byte* data, size_t bytes) noexcept;
  static void forget_in_child() noexcept;

  std::mutex mutex_;
  bool refused_ = false;                                 // guarded by mutex_, as all below
  SharedPlace file_;                                     // without an offset
  uint64_t next_offset_ = 0;                             // behind the last block
  std::map<size_t, FreeOffsets> free_;                   // by size
  std::map<const std::byte*, Shared> blocks_;            // by address
  std::unordered_map<const std::byte*, int> sightings_;  // of blocks that are not shared
};

}  // namespace mxlite
