// Memory of this process that other processes of the host also map, so that collectives access the
// arrays of all ranks directly. A block keeps its address when its pages are moved into a memory
// file and back.
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

// Location of shared memory for other processes: file descriptor `file` of `process`. Other
// processes also compare device and inode, because process IDs differ between namespaces.
struct SharedPlace {
  int64_t process = 0;
  uint64_t device = 0, inode = 0;
  uint64_t file_bytes = 0;
  uint64_t offset = 0;
  int32_t file = -1;  // -1 if not shared
};

// Maps new pages, or pages of a file starting at `offset`, at an address suitable for huge pages.
// Returns null on failure. `flags` are those of mmap.
std::byte* map_aligned(size_t bytes, int flags, int file, uint64_t offset);

class SharedMemory {
 public:
  static SharedMemory& get();  // leaked, because blocks outlive static objects

  // Returns the location of bytes that lie within one large block. The second call for a block
  // moves the block into the file; no other thread may write the block during the call. Returns an
  // empty location for the first call for a block, if the block is not large, or if the system
  // refuses.
  SharedPlace place_of(const void* data, size_t bytes);
  // Moves the block that contains the address out of the file permanently. Other processes keep the
  // old pages, which are no longer used. No other thread may write the block during the call.
  void make_private(const void* data) noexcept;
  // Converts a block back to private memory before the allocator reuses it. Returns false on
  // failure; the block must then stay allocated.
  bool withdraw(void* data, size_t bytes) noexcept;

  size_t shared_bytes();
  void lock() { mutex_.lock(); }  // called before and after fork()
  void unlock() { mutex_.unlock(); }

 private:
  struct Shared {
    size_t bytes;
    uint64_t offset;
  };
  // Freed ranges of one size. The capacity suffices for all ranges of this size.
  struct FreeOffsets {
    std::vector<uint64_t> offsets;
    size_t blocks = 0;  // number of ranges of this size, used or free
  };
  bool open_file();
  bool move_in(const LargeBlock& block);
  static bool move_out(std::byte* data, size_t bytes) noexcept;
  static void forget_in_child() noexcept;

  std::mutex mutex_;
  bool refused_ = false;                       // guarded by mutex_, like all members below
  SharedPlace file_;                           // location of the file, without an offset
  uint64_t next_offset_ = 0;                   // offset after the last block
  std::map<size_t, FreeOffsets> free_;         // the key is the size
  std::map<const std::byte*, Shared> blocks_;  // the key is the address
  std::unordered_map<const std::byte*, int> sightings_;  // for each address: number of requests
                                                         // while the block was not shared
};

}  // namespace mxlite
