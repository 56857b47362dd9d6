// Writing RecordIO files.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace mxlite::io {

class RecordWriter {
 public:
  // Replaces the file. Readers that have mapped the old one keep it unchanged.
  explicit RecordWriter(std::string path);
  // Continues after the first `keep` bytes of an existing file; the rest is lost.
  RecordWriter(std::string path, int64_t keep);
  // Writes buffered bytes; failures are lost, so call close() first.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Throws kValue for a record that is too long, kRecord when the file cannot be written.
  void write(std::span<const std::byte> record);
  // Writes a record of `size` bytes that `fill` produces directly in the output buffer.
  // Throws what fill throws; nothing is written then.
  void write(size_t size, const std::function<void(std::span<std::byte>)>& fill);
  // Returns the offset of the next record's head.
  int64_t tell() const { return position_; }
  void flush();
  // Returns when all written bytes survive a power failure.
  void sync();
  void close();
  const std::string& path() const { return path_; }

 private:
  void check(size_t record_size) const;
  void make_room(size_t bytes);
  void append(std::span<const std::byte> bytes);
  void append_part(uint32_t word, std::span<const std::byte> bytes);
  void pad();

  std::string path_;
  int descriptor_ = -1;
  pid_t owner_ = 0;  // process: a forked child must not write this buffer again
  int64_t position_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t capacity_ = 0, used_ = 0;  // bytes of buffer_
};

}  // namespace mxlite::io
