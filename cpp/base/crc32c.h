// CRC32C (Castagnoli), the checksum of checkpoints.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite {

// Of `bytes` more bytes behind those whose checksum is `before` (0: none).
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace mxlite
