// Blocks of the CPU allocator of 1 MiB and more, which consist of whole pages.
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

// Returns the block around an address, in use or cached.
std::optional<LargeBlock> large_block_at(const void* address);

// Frees a block of a size that will not be reused: large blocks go back to the system.
void discard(Block block) noexcept;
// Returns cached large blocks of this size to the system, because nobody will ask for it again.
void discard_cached(size_t bytes) noexcept;

}  // namespace mxlite
