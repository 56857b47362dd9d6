#include "cpp/core/cpu/guarded_allocator.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "cpp/base/env.h"
#include "cpp/base/error.h"

namespace mxlite {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr std::byte kFill{0xCB};  // about -2.6e7 as a float32, and out of range as an index

size_t mapped_bytes(size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes + kPageBytes;
}

// The last byte of a block precedes the guard page. If a block's size is not a multiple of the
// alignment, its data is therefore less aligned, as in a view of foreign memory.
class GuardedAllocator final : public Allocator {
 public:
  Block allocate(size_t bytes) override {
    MX_CHECK_KIND(bytes <= (size_t{1} << 62), ErrorKind::kOutOfMemory,
                  "an allocation must have at most 2^62 bytes, got ", bytes);
    const size_t whole = mapped_bytes(bytes);
    void* pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MX_CHECK_KIND(pages != MAP_FAILED, ErrorKind::kOutOfMemory, "out of memory on cpu: ", bytes,
                  " bytes requested, ", in_use_.load(), " in use, with guard pages");
    std::byte* guard = static_cast<std::byte*>(pages) + whole - kPageBytes;
    if (mprotect(guard, kPageBytes, PROT_NONE) != 0) {
      munmap(pages, whole);
      fail(ErrorKind::kOutOfMemory, "out of memory on cpu: the guard page after ", bytes,
           " bytes cannot be protected");
    }
    // Does not fill large blocks, because filling would allocate pages that may never be used.
    if (bytes <= (size_t{1} << 20)) std::memset(guard - bytes, static_cast<int>(kFill), bytes);
    in_use_ += bytes;
    return {guard - bytes, bytes};
  }
  void free(Block block) noexcept override {
    const size_t whole = mapped_bytes(block.bytes);
    std::byte* end = static_cast<std::byte*>(block.data) + block.bytes + kPageBytes;
    munmap(end - whole, whole);
    in_use_ -= block.bytes;
  }
  void release_cached() override {}
  MemoryStats stats() const override { return {in_use_, 0, in_use_, 0}; }

 private:
  std::atomic<size_t> in_use_{0};
};

}  // namespace

bool guard_pages_wanted() {
  static const bool wanted = env_int("MXLITE_CPU_GUARD_PAGES", 0) != 0;
  return wanted;
}

Allocator& guarded_allocator() {
  static auto* allocator = new GuardedAllocator;  // leaked, as arrays may outlive static objects
  return *allocator;
}

}  // namespace mxlite
