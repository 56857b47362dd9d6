// RecordIO format: a file is a list of parts [magic, cflag << 29 | length, payload, padding to 4].
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mxlite::io {

inline constexpr uint32_t kRecordMagic = 0xCED7230A;
inline constexpr uint32_t kMaxPartLength = (1U << 29) - 1;

// The writer splits a record at each magic word in its payload (at an offset divisible by 4) and
// omits the magic word. The reader restores it. Thus the magic word always marks the head of a
// part.
enum class RecordPart : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct PartHead {
  RecordPart part;
  uint32_t length;
  bool operator==(const PartHead&) const = default;
};

inline uint32_t encode_part(PartHead head) {
  return static_cast<uint32_t>(head.part) << 29 | head.length;
}
// The top bit of every valid word is 0.
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
