#include "cpp/base/crc32c.h"

#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

namespace mxlite {
namespace {

#ifdef __SSE4_2__

uint32_t add_bytes(uint32_t crc, const unsigned char* p, size_t bytes) {
  uint64_t wide = crc;
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<uint32_t>(wide);
  for (; bytes > 0; ++p, --bytes) crc = _mm_crc32_u8(crc, *p);
  return crc;
}

#else

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0x82F63B78u : value >> 1;
    table[i] = value;
  }
  return table;
}

uint32_t add_bytes(uint32_t crc, const unsigned char* p, size_t bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  for (; bytes > 0; ++p, --bytes) crc = crc >> 8 ^ kTable[(crc ^ *p) & 0xFF];
  return crc;
}

#endif

}  // namespace

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
  return ~add_bytes(~before, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace mxlite
