#include "cpp/ops/cpu/sparse/row_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>

#include "cpp/base/checked_math.h"
#include "cpp/core/cpu/large_blocks.h"
#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::sparse {
namespace {

constexpr size_t kPiece = 32 * kHugePage;    // bytes provided between two checks of the free memory
constexpr size_t kKept = size_t{256} << 20;  // bytes left free for the rest of the program

// Returns the number that follows `word` in a file of the Linux kernel, or `fallback` if the file
// or the word is missing.
size_t number_after(const char* path, const std::string& word, size_t fallback) {
  std::ifstream file(path);
  for (std::string found; file >> found;)
    if (size_t number = 0; found == word && file >> number) return number;
  return fallback;
}

// Returns the bytes that this process may still use on the host and in its control group.
size_t free_bytes() {
  const size_t host = number_after("/proc/meminfo", "MemAvailable:", SIZE_MAX >> 10) << 10;
  size_t limit = SIZE_MAX;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;  // "max" or bytes
  if (limit == 0 || limit == SIZE_MAX) return host;
  const size_t used = number_after("/sys/fs/cgroup/memory.stat", "anon", 0);
  return std::min(host, limit - std::min(used, limit));
}

}  // namespace

RowMemory::RowMemory(std::string table, size_t row_bytes, int64_t most_rows)
    : table_(std::move(table)), row_bytes_(row_bytes), most_rows_(most_rows) {
  const size_t room = free_bytes();
  if (most_rows_ < 0) most_rows_ = static_cast<int64_t>(room / row_bytes_);
  const int64_t bytes =
      checked_mul(std::max<int64_t>(most_rows_, 1), static_cast<int64_t>(row_bytes_));
  reserved_ = (static_cast<size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  void* const memory = mmap(nullptr, reserved_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_at(most_rows_, room);
  base_ = static_cast<std::byte*>(memory);
  madvise(base_, reserved_, MADV_HUGEPAGE);
}

RowMemory::~RowMemory() { munmap(base_, reserved_); }

void RowMemory::require(int64_t rows) {
  const size_t needed = static_cast<size_t>(rows) * row_bytes_;
  MX_ASSERT(rows <= most_rows_);
  if (needed <= ready_) return;
  const size_t room = free_bytes();
  if (needed - ready_ > room - std::min(room, kKept)) fail_at(rows, room - std::min(room, kKept));
  while (ready_ < needed) {
    const size_t end = std::min(reserved_, ready_ + kPiece);
    const size_t left = free_bytes();  // checked again, because other processes allocate, too
    if (left < kKept / 2 + kPiece) fail_at(rows, left - std::min(left, kKept));
    const auto pages = static_cast<int64_t>((end - ready_) / kHugePage);
    cpu::parallel_for(pages, kHugePage, [&](int64_t page) {
      volatile std::byte* const begin = base_ + ready_ + static_cast<size_t>(page) * kHugePage;
      for (size_t at = 0; at < kHugePage; at += kPage) begin[at] = std::byte{0};
    });
    ready_ = end;
  }
}

void RowMemory::fail_at(int64_t rows, size_t more_bytes) const {
  fail(ErrorKind::kOutOfMemory, "ShardedEmbedding ", table_, ": ", rows, " rows of ", row_bytes_,
       " bytes do not fit the memory of this rank, ", (ready_ + more_bytes) / row_bytes_,
       " rows fit; use more ranks, fewer rows, or a dtype of 16 bits");
}

}  // namespace mxlite::sparse
