// The words of a RecordIO file: parts of [magic, cflag << 29 | length, payload, zeros to 4 bytes].
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mxlite::io {

inline constexpr uint32_t kRecordMagic = 0xCED7230A;
inline constexpr uint32_t kMaxPartLength = (1U << 29) - 1;

// A record whose payload has the magic word at an offset divisible by 4 is split there; the word is
// left out and restored by the reader, so that it only ever precedes a length.
enum class RecordPart : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct PartHead {
  RecordPart part;
  uint32_t length;
  bool operator==(const PartHead&) const = default;
};

inline uint32_t encode_part(PartHead head) {
  return static_cast<uint32_t>(head.part) << 29 | head.length;
}
// No valid word has the top bit set.
inline bool valid_part(uint32_t word) { return word >> 31 == 0; }
inline PartHead decode_part(uint32_t word) {
  return {static_cast<RecordPart>(word >> 29), word & kMaxPartLength};
}

inline uint32_t load_word(const std::byte* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

inline int64_t padded(int64_t length) { return (length + 3) / 4 * 4; }

}  // namespace mxlite::io
