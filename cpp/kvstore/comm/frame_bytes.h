// Converts numbers and texts to and from the bytes of messages between processes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/byte_reader.h"

namespace mxlite {

class FrameWriter {
 public:
  template <class T>
  void number(T value) {
    const size_t end = bytes_.size();
    bytes_.resize(end + sizeof value);
    std::memcpy(bytes_.data() + end, &value, sizeof value);
  }
  void bytes(std::span<const std::byte> values) {
    bytes_.insert(bytes_.end(), values.begin(), values.end());
  }
  void text(const std::string& value);
  void numbers(std::span<const int64_t> values);
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Throws communicator errors whose texts begin with `source`, a string literal.
class FrameReader : private ByteReader {
 public:
  FrameReader(std::span<const std::byte> bytes, const char* source)
      : ByteReader(bytes, source, ErrorKind::kCommunicator) {}
  using ByteReader::at_end;
  using ByteReader::count;
  using ByteReader::left;
  using ByteReader::number;
  std::string text() { return ByteReader::text(count(1)); }
  std::vector<int64_t> numbers();
  void bytes(void* to, size_t n) {
    const auto from = take(n);
    if (n > 0) std::memcpy(to, from.data(), n);
  }
};

}  // namespace mxlite
