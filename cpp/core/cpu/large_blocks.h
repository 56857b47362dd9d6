// Blocks of the CPU allocator that have pages of their own: 2 MiB aligned, multiples of 2 MiB.
#pragma once
#include <cstddef>
#include <optional>

namespace mxlite {

inline constexpr size_t kLargeStep = size_t{2} << 20;

struct LargeBlock {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

// The block around an address, in use or cached.
std::optional<LargeBlock> large_block_at(const void* address);

}  // namespace mxlite
