// Writes RecordIO files.
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
  // Replaces the file. A process that has the old file open keeps reading the old content.
  explicit RecordWriter(std::string path);
  // Truncates an existing file to its first `keep` bytes and appends to it.
  RecordWriter(std::string path, int64_t keep);
  // Writes buffered bytes but ignores errors. Call close() first to get these errors.
  ~RecordWriter();
  RecordWriter& operator=(RecordWriter&&) = delete;  // neither copied nor moved

  // Throws a value error if the record is too long, and a record error if the file cannot be
  // written.
  void write(std::span<const std::byte> record);
  // Writes a record of `size` bytes that `fill` produces directly in the output buffer.
  // If `fill` throws, writes nothing and rethrows.
  void write(size_t size, const std::function<void(std::span<std::byte>)>& fill);
  // Returns the offset of the next record's head.
  int64_t tell() const { return position_; }
  void flush();
  // Waits until all written bytes are on the disk (fsync).
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
  // PID of the process that may write the buffer. A forked child must not write the buffer again.
  pid_t owner_ = 0;
  int64_t position_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  size_t capacity_ = 0, used_ = 0;  // bytes of buffer_
};

}  // namespace mxlite::io
