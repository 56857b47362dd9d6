// CRC32C (Castagnoli), the checksum of checkpoints.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite {

// Returns the checksum of `bytes` bytes that follow other bytes, whose checksum is `before` (0 if
// there are no other bytes).
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace mxlite
