// Writing RecordIO files.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mxlite::io {

class RecordWriter {
 public:
  // Replaces the file. One that readers have mapped stays as it is for them.
  explicit RecordWriter(std::string path);
  // Goes on behind the first `keep` bytes of an existing file; what follows them is lost.
  RecordWriter(std::string path, int64_t keep);
  // Writes what is left; failures are lost, so call close() first.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Throws kValue for a record that is too long, kRecord when the file cannot be written.
  void write(std::span<const std::byte> record);
  // Where the next record's head will be.
  int64_t tell() const { return position_; }
  void flush();
  // Returns when what was written survives a power failure.
  void sync();
  void close();
  const std::string& path() const { return path_; }

 private:
  void append(std::span<const std::byte> bytes);
  void append_part(uint32_t word, std::span<const std::byte> bytes);

  std::string path_;
  int descriptor_ = -1;
  pid_t owner_ = 0;  // a forked child must not write the parent's buffer again
  int64_t position_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace mxlite::io
