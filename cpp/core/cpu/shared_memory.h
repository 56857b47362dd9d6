// Memory of this process that other processes of the host map, too, so that collectives read and
// write the arrays of all ranks in place. A block keeps its address when its pages move into a file
// in memory, and when they move back.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cpp/core/cpu/large_blocks.h"

namespace mxlite {

// Tells other processes where the memory is: descriptor `file` of `process`. Device and inode are
// compared, because process numbers differ between namespaces.
struct SharedPlace {
  int64_t process = 0;
  uint64_t device = 0, inode = 0;
  uint64_t file_bytes = 0;
  uint64_t offset = 0;
  int32_t file = -1;  // -1: not shared
};

// Maps fresh pages, or those of a file from `offset` on, at an address suitable for huge pages;
// null on failure. `flags` are mmap's.
std::byte* map_aligned(size_t bytes, int flags, int file, uint64_t offset);

class SharedMemory {
 public:
  static SharedMemory& get();  // leaked: blocks outlive static objects

  // Returns where the bytes lie inside one large block. The second call for a block
  // moves it into the file; no other thread may write it meanwhile. The result is empty if the
  // block is not large, was seen for the first time, or the system refuses.
  SharedPlace place_of(const void* data, size_t bytes);
  // Moves the block around the address out of the file for good; other processes keep the old
  // pages, which nobody uses any more. No other thread may write the block meanwhile.
  void make_private(const void* data) noexcept;
  // Turns a block into ordinary memory before the allocator takes it back. Returns false if that
  // failed; the block must then stay allocated.
  bool withdraw(void* data, size_t bytes) noexcept;

  size_t shared_bytes();
  void lock() { mutex_.lock(); }  // around fork()
  void unlock() { mutex_.unlock(); }

 private:
  struct Shared {
    size_t bytes;
    uint64_t offset;
  };
  // Ranges of one size that were given back; the capacity covers all that were ever taken.
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
  uint64_t next_offset_ = 0;                             // after the last block
  std::map<size_t, FreeOffsets> free_;                   // by size
  std::map<const std::byte*, Shared> blocks_;            // by address
  std::unordered_map<const std::byte*, int> sightings_;  // requests for unshared blocks
};

}  // namespace mxlite
