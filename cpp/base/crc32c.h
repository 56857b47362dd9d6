// CRC32C (Castagnoli), the checksum of checkpoints.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mxlite {

// Extends the checksum `before` of preceding bytes (0: there are none) by `bytes` more bytes.
uint32_t crc32c(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace mxlite
