#include "tests/cpp/emulated_gpu/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/emulated_gpu/faults.h"

namespace mxlite::emulated {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kWidest = 16;  // bytes that one instruction of a kernel accesses
constexpr size_t kNear = 64;    // bytes beside an allocation that are checked after every kernel
constexpr size_t kMostKept = 4096, kMostKeptBytes = size_t{256} << 20;
constexpr int kPattern = 0xE7;
constexpr int kFresh = 0xA5;  // content of scratch memory before and after its life

struct Pages {
  std::byte *begin, *end;  // with access
  std::byte* data;
  size_t bytes, alignment;
  size_t inside() const { return static_cast<size_t>(end - begin); }
  std::byte* data_end() const { return data + bytes; }
};

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Returns the first byte that is not the pattern, or null. The range is at most a page.
const std::byte* find_change(const std::byte* begin, const std::byte* end) {
  static const std::vector<std::byte> pattern(kPage, std::byte{kPattern});
  if (std::memcmp(begin, pattern.data(), static_cast<size_t>(end - begin)) == 0) return nullptr;
  return std::find_if(begin, end, [](std::byte b) { return b != std::byte{kPattern}; });
}

class Memory {
 public:
  void* allocate(size_t bytes, size_t alignment) {
    const std::lock_guard lock(mutex_);
    Pages pages{};
    if (auto& kept = kept_[{bytes, alignment}]; !kept.empty()) {
      pages = kept.back();
      kept.pop_back();
      --num_kept_;
      kept_bytes_ -= pages.inside();
    } else {
      pages = map(bytes, alignment);
    }
    live_.emplace(pages.data, pages);
    return pages.data;
  }

  void free(void* data) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<std::byte*>(data));
    MX_ASSERT(found != live_.end());
    const Pages pages = found->second;
    if (damage_.empty()) {
      damage_ = damage_of(pages, pages.inside());
      if (!damage_.empty())
        damage_ += ", or an earlier kernel did: it was found when that was freed";
    }
    live_.erase(found);
    if (num_kept_ < kMostKept && kept_bytes_ + pages.inside() <= kMostKeptBytes) {
      kept_[{pages.bytes, pages.alignment}].push_back(pages);
      ++num_kept_;
      kept_bytes_ += pages.inside();
    } else {
      munmap(pages.begin - kPage, pages.inside() + 2 * kPage);
    }
  }

  std::string find_damage() {
    const std::lock_guard lock(mutex_);
    for (auto i = live_.begin(); damage_.empty() && i != live_.end(); ++i)
      damage_ = damage_of(i->second, kNear);
    return std::exchange(damage_, {});
  }

  std::string describe(const void* address) {
    const std::lock_guard lock(mutex_);
    return describe_locked(static_cast<const std::byte*>(address));
  }

 private:
  Pages map(size_t bytes, size_t alignment) {
    const size_t inside = std::max(round_up(bytes, kPage), kPage);
    void* const all =
        mmap(nullptr, inside + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MX_CHECK_KIND(all != MAP_FAILED, ErrorKind::kOutOfMemory, "emulated GPU: no memory for ", bytes,
                  " bytes between guard pages");
    std::byte* const begin = static_cast<std::byte*>(all) + kPage;
    Pages pages{begin, begin + inside, nullptr, bytes, alignment};
    if (mprotect(begin, inside, PROT_READ | PROT_WRITE) != 0) {
      munmap(all, inside + 2 * kPage);
      fail(ErrorKind::kOutOfMemory, "emulated GPU: no memory for ", bytes,
           " bytes between guard pages");
    }
    switch (turns_[bytes]++ % 3) {
      case 0:
        pages.data = pages.end - round_up(bytes, alignment);
        break;
      case 1:
        pages.data = pages.end - round_up(bytes, std::max(alignment, kWidest));
        break;
      default:
        pages.data = pages.begin;
    }
    fill(pages);
    return pages;
  }

  static void fill(const Pages& p) {
    std::memset(p.begin, kPattern, static_cast<size_t>(p.data - p.begin));
    std::memset(p.data_end(), kPattern, static_cast<size_t>(p.end - p.data_end()));
  }

  // Checks `reach` bytes on both sides. Restores the pattern where it has changed, so that each
  // change is reported once.
  std::string damage_of(const Pages& p, size_t reach) {
    const auto before = static_cast<size_t>(p.data - p.begin);
    const auto behind = static_cast<size_t>(p.end - p.data_end());
    const std::byte* changed = find_change(p.data - std::min(before, reach), p.data);
    if (!changed) changed = find_change(p.data_end(), p.data_end() + std::min(behind, reach));
    if (!changed) return {};
    fill(p);
    return describe_locked(changed);
  }

  // Returns the address as a byte of the allocation that is nearest.
  std::string describe_locked(const std::byte* address) const {
    const auto next = live_.upper_bound(const_cast<std::byte*>(address));
    const Pages* nearest = next == live_.end() ? nullptr : &next->second;
    if (next != live_.begin()) {
      const Pages& before = std::prev(next)->second;
      if (!nearest || address - before.data_end() < nearest->data - address) nearest = &before;
    }
    constexpr int64_t kFar = int64_t{1} << 40;
    const int64_t byte = nearest ? address - nearest->data : kFar;
    if (byte >= kFar || byte <= -kFar)
      return str("address ", static_cast<const void*>(address), ", far from all allocations");
    return str("byte ", byte, " of an allocation of ", nearest->bytes, " bytes");
  }

  std::mutex mutex_;
  // These members are guarded by mutex_.
  std::map<std::byte*, Pages> live_;
  std::map<std::pair<size_t, size_t>, std::vector<Pages>> kept_;  // freed, by size and alignment
  std::map<size_t, unsigned> turns_;                              // mapped so far, by size
  size_t num_kept_ = 0, kept_bytes_ = 0;
  std::string damage_;
};

Memory& memory() {
  static auto* const instance = new Memory;  // leaked: streams may outlive static destructors
  return *instance;
}

class ImmediateStream final : public Stream {
 public:
  Device device() const override { return {DeviceType::kCUDA, 0}; }
  void enter() override {}
  void wait_for(Stream&) override { fail(ErrorKind::kDevice, "wait inside a kernel's call"); }
  void synchronize() override {}
  void copy(void* to, const void* from, size_t bytes) override { std::memmove(to, from, bytes); }
  void* scratch(size_t bytes) override {
    thread_local Scratch last;
    last.replace(bytes);
    return last.data;
  }
  std::unique_ptr<Attachment>& attachment() override { return attachment_; }

 private:
  struct Scratch {
    void* data = nullptr;
    size_t size = 0;

    ~Scratch() { release(); }
    void release() {
      if (!data) return;
      std::memset(data, kFresh, size);
      free_guarded(std::exchange(data, nullptr));
    }
    void replace(size_t bytes) {
      constexpr size_t kAlignment = 256;  // what KernelContext::scratch promises
      release();
      data = allocate_guarded(bytes, kAlignment);
      size = bytes;
      std::memset(data, kFresh, size);
    }
  };

  std::unique_ptr<Attachment> attachment_;
};

}  // namespace

void* allocate_guarded(size_t bytes, size_t alignment) {
  return memory().allocate(bytes, alignment);
}
void free_guarded(void* data) noexcept { memory().free(data); }

void check_guarded_memory() {
  emulation::set_memory_checks({[](const void* address) { return memory().describe(address); },
                                [] { return memory().find_damage(); }});
}

Stream& immediate_stream() {
  static ImmediateStream stream;
  return stream;
}

}  // namespace mxlite::emulated
