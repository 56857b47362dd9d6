// Reading parts of a file into memory. A memory map would end the process with SIGBUS if another
// process truncated the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/error.h"

namespace mxlite::io {

// Opens a file for reading without waiting for the other end of a pipe; returns its descriptor, -1
// with errno if that fails.
int open_to_read(const std::string& path);

// Memory that is reused between reads and holds the bytes of the last one.
class ReadBuffer {
 public:
  // Each read takes at least `ahead` bytes where the file has them: for small neighbouring reads.
  explicit ReadBuffer(size_t ahead = 0) : ahead_(ahead) {}
  void forget() { size_ = 0; }

 private:
  friend class FileBytes;
  size_t ahead_;
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0, size_ = 0;
  int64_t begin_ = 0;
};

// Const functions may be called by several threads, each with a buffer of its own.
class FileBytes {
 public:
  // Throws kRecord naming `who` and the path unless it is a readable regular file.
  FileBytes(const std::string& path, const std::string& who);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  int64_t size() const { return size_; }
  // Updates the size; returns true if it changed.
  bool refresh();
  // Returns bytes [offset, offset + size), in `buffer` until its next read. Returns fewer if the
  // file ends before, also because it was truncated since its size was asked for.
  std::span<const std::byte> read(int64_t offset, size_t size, ReadBuffer& buffer) const;

 private:
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace mxlite::io
