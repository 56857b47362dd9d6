// Blocks of the CPU allocator of at least 1 MiB, which consist of whole pages.
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

// Returns the used or cached block that contains an address.
std::optional<LargeBlock> large_block_at(const void* address);

// Frees a block whose size will not be reused. Large blocks are returned to the system.
void discard(Block block) noexcept;
// Returns cached large blocks of this size to the system. Call if this size will not be allocated
// again.
void discard_cached(size_t bytes) noexcept;

}  // namespace mxlite
