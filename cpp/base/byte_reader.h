// Bounds-checked reading of bytes that come from files and sockets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "cpp/base/error.h"

namespace mxlite {

// A read position in a range of bytes. Every read checks the remaining size, and counts are checked
// before memory is allocated. Numbers are little-endian unless a function says otherwise.
class ByteReader {
 public:
  // Errors have the given kind, and their text begins with `source`, a string literal.
  ByteReader(std::span<const std::byte> bytes, const char* source,
             ErrorKind kind = ErrorKind::kRecord)
      : bytes_(bytes), source_(source), kind_(kind) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }
  bool at_end() const { return left() == 0; }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(size_t size) {
    if (size > left()) [[unlikely]]
      too_short(size);
    const auto piece = bytes_.subspan(offset_, size);
    offset_ += size;
    return piece;
  }
  // Reads a 32-bit count of entries that take at least `least` bytes each. Throws if the entries
  // exceed the remaining bytes.
  uint32_t count(size_t least) {
    const auto n = number<uint32_t>();
    if (n > left() / least) [[unlikely]]
      fail(kind_, source_, ", offset ", offset_ - sizeof n, ": ",
           "the number of entries must fit into the ", left(), " bytes that follow, got ", n);
    return n;
  }
  std::string text(size_t size) {
    const auto piece = take(size);
    return {reinterpret_cast<const char*>(piece.data()), size};
  }

 private:
  [[noreturn]] void too_short(size_t size) const {
    fail(kind_, source_, ", offset ", offset_, ": ", size, " bytes must follow, got ", left());
  }

  std::span<const std::byte> bytes_;
  const char* source_;
  ErrorKind kind_;
  size_t offset_ = 0;
};

// Returns the unsigned number in `size` bytes (at most 4) at an offset, or nullopt if the bytes end
// before.
inline std::optional<uint32_t> number_at(std::span<const std::byte> bytes, size_t offset,
                                         size_t size, bool little_endian) {
  if (size > 4 || offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value =
        value << 8 | std::to_integer<uint32_t>(bytes[offset + (little_endian ? size - 1 - i : i)]);
  return value;
}

}  // namespace mxlite
