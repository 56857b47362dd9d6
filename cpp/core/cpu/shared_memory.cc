#include "cpp/core/cpu/shared_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cpp/base/env.h"

namespace mxlite {
namespace {

constexpr uint64_t kFileBytes = uint64_t{1} << 38;  // size of the address range; pages are
                                                    // allocated with blocks

// Requests huge pages for a new range of the file. Other processes then also map huge pages. With
// the usual setting `never` of `shmem_enabled`, the kernel creates huge pages only on request. If
// the kernel is older than 6.1 or has no free huge pages, the range keeps small pages.
void collapse_pages(std::byte* begin, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack
  const size_t whole = bytes / kHugePage * kHugePage;
  if (whole == 0) return;
  // Touches every page, because the kernel only collapses ranges that have pages.
  for (size_t at = 0; at < whole; at += kHugePage) begin[at] = std::byte{0};
  madvise(begin, whole, kCollapse);
}

// Replaces the pages at `to` with those at `from`.
bool replace_pages(std::byte* to, std::byte* from, size_t bytes) {
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED) return true;
  munmap(from, bytes);
  return false;
}

}  // namespace

std::byte* map_aligned(size_t bytes, int flags, int file, uint64_t offset) {
  void* room = mmap(nullptr, bytes + kHugePage, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(room);
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* place = begin + head;
  const void* mapped = mmap(place, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file,
                            static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) {
    munmap(begin, bytes + kHugePage);
    return nullptr;
  }
  if (head > 0) munmap(begin, head);
  munmap(place + bytes, kHugePage - head);
  madvise(place, bytes, MADV_HUGEPAGE);
  return place;
}

SharedMemory& SharedMemory::get() {
  static SharedMemory& instance = *new SharedMemory;
  return instance;
}

bool SharedMemory::open_file() {
  if (file_.file >= 0) return true;
  if (refused_) return false;
  refused_ = true;
  if (env_int("MXLITE_COMM_SHARED_ARRAYS", 1) == 0) return false;
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);  // writing beyond this limit would end the process
  const uint64_t bytes = std::min<uint64_t>(kFileBytes, limit.rlim_cur) / kHugePage * kHugePage;
  const int file = memfd_create("mxlite-arrays", MFD_CLOEXEC);
  struct stat info {};
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0 || fstat(file, &info) != 0) {
    if (file >= 0) close(file);
    return false;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);
  static_cast<void>(registered);
  file_ = {getpid(), info.st_dev, info.st_ino, bytes, 0, file};
  refused_ = false;
  return true;
}

SharedPlace SharedMemory::place_of(const void* data, size_t bytes) {
  const auto block = large_block_at(data);
  const auto* begin = static_cast<const std::byte*>(data);
  if (!block || begin + bytes > block->data + block->bytes) return {};
  std::lock_guard lock(mutex_);
  auto found = blocks_.find(block->data);
  if (found == blocks_.end()) {
    if (refused_ || ++sightings_[block->data] < 2 || !open_file() || !move_in(*block)) return {};
    found = blocks_.find(block->data);
  }
  SharedPlace place = file_;
  place.offset = found->second.offset + static_cast<uint64_t>(begin - block->data);
  return place;
}

bool SharedMemory::move_in(const LargeBlock& block) {
  uint64_t offset = next_offset_;
  FreeOffsets& freed = free_[block.bytes];
  const bool again = !freed.offsets.empty();
  if (again) offset = freed.offsets.back();
  if (offset + block.bytes > file_.file_bytes) return false;
  if (!again && freed.offsets.capacity() == freed.blocks)
    freed.offsets.reserve(std::max<size_t>(8, 2 * freed.blocks));
  const auto entry = blocks_.insert({block.data, {block.bytes, offset}}).first;
  std::byte* fresh = map_aligned(block.bytes, MAP_SHARED, file_.file, offset);
  if (fresh) {
    collapse_pages(fresh, block.bytes);
    std::memcpy(fresh, block.data, block.bytes);
  }
  if (!fresh || !replace_pages(block.data, fresh, block.bytes)) {
    blocks_.erase(entry);
    return false;
  }
  if (again) {
    freed.offsets.pop_back();
  } else {
    ++freed.blocks;
    next_offset_ += (block.bytes + kHugePage - 1) / kHugePage * kHugePage;
  }
  sightings_.erase(block.data);
  return true;
}

bool SharedMemory::move_out(std::byte* data, size_t bytes) noexcept {
  std::byte* fresh = map_aligned(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!fresh) return false;
  std::memcpy(fresh, data, bytes);
  return replace_pages(data, fresh, bytes);
}

void SharedMemory::make_private(const void* data) noexcept {
  const auto block = large_block_at(data);
  if (!block) return;
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block->data);
  if (found == blocks_.end()) return;
  // The file's range is never reused, because a rank that hangs now may write to the range later.
  if (move_out(block->data, block->bytes)) blocks_.erase(found);
}

bool SharedMemory::withdraw(void* data, size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  sightings_.erase(static_cast<std::byte*>(data));
  const auto found = blocks_.find(static_cast<std::byte*>(data));
  if (found == blocks_.end()) return true;
  const void* mapped =
      mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) return false;
  const uint64_t offset = found->second.offset;
  blocks_.erase(found);
  fallocate(file_.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  free_.find(bytes)->second.offsets.push_back(offset);  // does not allocate, because move_in has
                                                        // reserved the memory
  return true;
}

size_t SharedMemory::shared_bytes() {
  std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [data, shared] : blocks_) total += shared.bytes;
  return total;
}

// Writes of a forked child must not change the parent's arrays. The child gets copies of the
// parent's current arrays. If copying fails, the child cannot read them.
void SharedMemory::forget_in_child() noexcept {
  SharedMemory& all = get();
  for (const auto& [data, shared] : all.blocks_) {
    auto* place = const_cast<std::byte*>(data);
    if (!move_out(place, shared.bytes)) munmap(place, shared.bytes);
  }
  all.blocks_.clear();
  all.sightings_.clear();
  all.free_.clear();
  all.next_offset_ = 0;
  if (all.file_.file >= 0) close(all.file_.file);
  all.file_ = {};
}

}  // namespace mxlite
