// Size classes are powers of two below 4 KiB, then eighths of powers of two up to 16 MiB, then
// multiples of 2 MiB. Larger steps would waste a tenth of the memory of weights, which have many
// sizes. Huge pages are requested for blocks of 2 MiB or more. Freed blocks are cached. If
// MXLITE_CPU_CACHE_BYTES is set, it limits the cache. Otherwise the limit is 1 GiB. The cache may
// exceed 1 GiB if used and cached blocks together do not exceed the largest use of the last 10 to
// 20 seconds, because a training step allocates what the previous step has freed. Fresh pages would
// take as long as many operators.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/allocator.h"
#include "cpp/core/cpu/guarded_allocator.h"
#include "cpp/core/cpu/large_blocks.h"
#include "cpp/core/cpu/poison.h"
#include "cpp/core/cpu/shared_memory.h"

namespace mxlite {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallLimit = size_t{4} << 10;
constexpr size_t kLargeLimit = size_t{16} << 20;
constexpr size_t kNumSmallClasses = std::bit_width(kSmallLimit) - std::bit_width(kAlignment);
static_assert(kOwnPages / 8 % kPage == 0);

size_t size_class(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  if (bytes < kSmallLimit) return std::bit_ceil(bytes);
  const size_t step = bytes < kLargeLimit ? std::bit_floor(bytes) / 8 : kHugePage;
  return (bytes + step - 1) / step * step;
}

// Tracks the largest number of bytes in use during the current and the previous interval.
class RecentPeak {
 public:
  void count(size_t in_use) { now_ = std::max(now_, in_use); }
  void advance(size_t in_use) {
    const auto time = std::chrono::steady_clock::now();
    if (time - begin_ < kInterval) return;
    before_ = time - begin_ < 2 * kInterval ? now_ : in_use;
    now_ = in_use;
    begin_ = time;
  }
  size_t bytes() const { return std::max(now_, before_); }

 private:
  static constexpr std::chrono::seconds kInterval{10};
  size_t now_ = 0, before_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class CpuAllocator final : public Allocator {
 public:
  CpuAllocator()
      : cache_limit_(static_cast<size_t>(env_int("MXLITE_CPU_CACHE_BYTES", int64_t{1} << 30))),
        limit_(static_cast<size_t>(env_int("MXLITE_CPU_MEMORY_LIMIT", 0))),
        keeps_peak_(env_string("MXLITE_CPU_CACHE_BYTES", "").empty()) {}

  Block allocate(size_t asked) override {
    MX_CHECK_KIND(asked <= (size_t{1} << 62), ErrorKind::kOutOfMemory,
                  "an allocation must have at most 2^62 bytes, got ", asked);
    const size_t bytes = size_class(asked);
    {
      std::lock_guard lock(mutex_);
      SizeClass& blocks = class_locked(bytes);
      if (!blocks.cached.empty()) {
        void* data = blocks.cached.back();
        blocks.cached.pop_back();
        stats_.cached -= bytes;
        count_use(bytes);
        if (bytes < kOwnPages) allow_access(data, asked, bytes);
        return {data, asked};
      }
      if (keeps_peak_) shrink_locked(bytes, /*cached=*/0);
      if (limit_ && stats_.in_use + stats_.cached + bytes > limit_) release_locked();
      if (limit_ && stats_.in_use + bytes > limit_) throw_out_of_memory(asked);
      blocks.add_one();
      count_use(bytes);
    }
    void* data = system_allocate(bytes);
    if (!data) {
      std::lock_guard lock(mutex_);
      release_locked();
      data = system_allocate(bytes);
      if (!data) {
        forget_locked(bytes);
        throw_out_of_memory(asked);
      }
    }
    if (bytes < kOwnPages) allow_access(data, asked, bytes);
    return {data, asked};
  }

  void free(Block block) noexcept override {
    const size_t bytes = size_class(block.bytes);
    {
      std::lock_guard lock(mutex_);
      if (bytes >= kOwnPages) recent_peak_.advance(stats_.in_use);
      // This block was used last, so blocks that were cached earlier are released first.
      if (keeps_peak_) shrink_locked(/*bytes=*/0, /*cached=*/bytes);
      if (keeps_peak_ || stats_.cached + bytes <= cache_limit_) {
        class_locked(bytes).cached.push_back(block.data);  // does not allocate, because add_one has
                                                           // reserved the memory
        if (bytes < kOwnPages) allow_access(block.data, 0, bytes);
        stats_.in_use -= bytes;
        stats_.cached += bytes;
        return;
      }
      forget_locked(bytes);
    }
    system_free(block.data, bytes);
  }

  void discard(Block block) noexcept {
    const size_t bytes = size_class(block.bytes);
    if (bytes < kOwnPages) return free(block);
    {
      std::lock_guard lock(mutex_);
      forget_locked(bytes);
    }
    system_free(block.data, bytes);
  }

  void discard_cached(size_t asked) noexcept {
    const size_t bytes = size_class(asked);
    if (bytes < kOwnPages) return;
    std::lock_guard lock(mutex_);
    const auto known = size_classes_.find(bytes);
    if (known != size_classes_.end()) release_locked(known->first, known->second);
  }

  void release_cached() override {
    std::lock_guard lock(mutex_);
    release_locked();
  }

  MemoryStats stats() const override {
    std::lock_guard lock(mutex_);
    MemoryStats s = stats_;
    s.limit = limit_;
    return s;
  }

  std::optional<LargeBlock> large_block_at(const void* address) {
    std::lock_guard lock(large_mutex_);
    auto after = large_.upper_bound(static_cast<const std::byte*>(address));
    if (after == large_.begin()) return std::nullopt;
    const auto& [data, bytes] = *--after;
    if (address >= data + bytes) return std::nullopt;
    return LargeBlock{const_cast<std::byte*>(data), bytes};
  }

  void lock() {
    mutex_.lock();
    SharedMemory::get().lock();
    large_mutex_.lock();
  }
  void unlock() {
    large_mutex_.unlock();
    SharedMemory::get().unlock();
    mutex_.unlock();
  }

 private:
  // The blocks of one size. The list has capacity for all of them, so that freeing a block cannot
  // fail.
  struct SizeClass {
    void add_one() {
      if (cached.capacity() == blocks) cached.reserve(std::max<size_t>(8, 2 * blocks));
      ++blocks;
    }
    std::vector<void*> cached;
    size_t blocks = 0;  // number of used and cached blocks
  };

  // Cannot fail for the size of a block in use. Small sizes are powers of two, so they need no
  // search in the map.
  SizeClass& class_locked(size_t bytes) {
    if (bytes >= kSmallLimit) return size_classes_[bytes];
    SizeClass*& known = small_classes_[std::bit_width(bytes) - std::bit_width(kAlignment)];
    if (!known) known = &size_classes_[bytes];
    return *known;
  }

  // Removes a block in use from the counts.
  void forget_locked(size_t bytes) noexcept {
    --class_locked(bytes).blocks;
    stats_.in_use -= bytes;
  }
  void* system_allocate(size_t bytes) noexcept {
    if (bytes < kOwnPages) return std::aligned_alloc(kAlignment, bytes);
    const bool huge = bytes >= kHugePage;
    void* data = nullptr;  // aligned_alloc requires multiples of the alignment
    if (posix_memalign(&data, huge ? kHugePage : kPage, bytes) != 0) return nullptr;
    if (huge) madvise(data, bytes, MADV_HUGEPAGE);
    std::lock_guard lock(large_mutex_);
    try {
      large_[static_cast<std::byte*>(data)] = bytes;
    } catch (const std::bad_alloc&) {
      std::free(data);
      return nullptr;
    }
    return data;
  }
  void system_free(void* data, size_t bytes) noexcept {
    if (bytes >= kOwnPages) {
      if (!SharedMemory::get().withdraw(data, bytes)) return;
      std::lock_guard lock(large_mutex_);
      large_.erase(static_cast<std::byte*>(data));
    }
    std::free(data);
  }
  void count_use(size_t bytes) {
    stats_.in_use += bytes;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    recent_peak_.count(stats_.in_use);
  }
  // Releases cached blocks until `bytes` more bytes, of which `cached` are cached, fit into the
  // limit.
  void shrink_locked(size_t bytes, size_t cached) noexcept {
    auto it = size_classes_.rbegin();
    while (it != size_classes_.rend() && stats_.cached + cached > cache_limit_ &&
           stats_.in_use + stats_.cached + bytes > recent_peak_.bytes()) {
      auto& [size, blocks] = *it;
      if (blocks.cached.empty()) {
        ++it;
        continue;
      }
      system_free(blocks.cached.back(), size);
      blocks.cached.pop_back();
      --blocks.blocks;
      stats_.cached -= size;
    }
  }
  void release_locked() noexcept {
    for (auto& [bytes, blocks] : size_classes_) release_locked(bytes, blocks);
  }
  void release_locked(size_t bytes, SizeClass& blocks) noexcept {
    for (void* data : blocks.cached) system_free(data, bytes);
    blocks.blocks -= blocks.cached.size();
    stats_.cached -= blocks.cached.size() * bytes;
    blocks.cached.clear();
  }
  [[noreturn]] void throw_out_of_memory(size_t asked) {
    fail(ErrorKind::kOutOfMemory, "out of memory on cpu: ", asked, " bytes requested, ",
         stats_.in_use, " in use, ", stats_.cached, " cached, limit ",
         limit_ ? str(limit_) : "of the machine");
  }

  mutable std::mutex mutex_;
  std::map<size_t, SizeClass> size_classes_;  // guarded by mutex_; entries are never removed
  std::array<SizeClass*, kNumSmallClasses> small_classes_{};  // guarded by mutex_
  MemoryStats stats_;                                         // guarded by mutex_
  RecentPeak recent_peak_;                                    // guarded by mutex_
  std::mutex large_mutex_;                    // locked after mutex_ and the mutex of SharedMemory
  std::map<const std::byte*, size_t> large_;  // guarded by large_mutex_; sizes of large blocks; the
                                              // key is the address
  const size_t cache_limit_, limit_;
  const bool keeps_peak_;
};

[[gnu::always_inline]] inline CpuAllocator& instance() {
  static auto* allocator = new CpuAllocator;  // leaked, as arrays may outlive static objects
  return *allocator;
}

}  // namespace

Allocator& cpu_allocator() {
  static Allocator& chosen = guard_pages_wanted() ? guarded_allocator() : instance();
  return chosen;
}
std::optional<LargeBlock> large_block_at(const void* address) {
  return instance().large_block_at(address);
}
void discard(Block block) noexcept {
  guard_pages_wanted() ? guarded_allocator().free(block) : instance().discard(block);
}
void discard_cached(size_t bytes) noexcept {
  if (!guard_pages_wanted()) instance().discard_cached(bytes);
}
void lock_cpu_allocator() { instance().lock(); }
void unlock_cpu_allocator() { instance().unlock(); }

}  // namespace mxlite
