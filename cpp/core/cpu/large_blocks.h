// Blocks of the CPU allocator that are whole pages of their own: those of 1 MiB and more.
#pragma once
#include <cstddef>
#include <optional>

#include "cpp/core/allocator.h"

namespace mxlite {

inline constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
inline constexpr size_t kOwnPages = size_t{1} << 20;

struct LargeBlock {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// The block around an address, in use or cached.
std::optional<LargeBlock> large_block_at(const void* address);

// Frees a block that none will be like: a large one goes back to the system instead of the cache.
void discard(Block block) noexcept;

}  // namespace mxlite
