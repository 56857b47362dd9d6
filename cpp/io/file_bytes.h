// Reads parts of a file into memory. The file is a local file or has an address such as
// "s3://bucket/file". Files are not mapped into memory, because the process would end with SIGBUS
// if another process truncated a mapped file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/error.h"
#include "cpp/ndarray/params_file.h"

namespace mxlite::io {

// Opens a file for reading. Returns its descriptor, or -1 and sets errno. Does not block if the
// path is a pipe without a writer.
int open_to_read(const std::string& path);

// Sets the function that opens addresses. Before this call, an address is the name of a local file.
void set_remote_opener(ByteSource (*open)(const std::string& address));

// Memory that is reused between reads. It holds the bytes of the last read.
class ReadBuffer {
 public:
  // Each read fetches at least `ahead` bytes (up to the file's end), so that small adjacent reads
  // are fast.
  explicit ReadBuffer(size_t ahead = 0) : ahead_(ahead) {}
  void forget() { size_ = 0; }

 private:
  friend class FileBytes;
  size_t ahead_;
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0, size_ = 0;
  int64_t begin_ = 0;
};

// Const functions are thread-safe if each thread passes its own buffer.
class FileBytes {
 public:
  // Throws a record error that names `who` and the path unless the path is a readable regular file.
  // If the path is an address, throws the remote opener's error instead.
  FileBytes(const std::string& path, const std::string& who);
  ~FileBytes();
  FileBytes& operator=(FileBytes&&) = delete;  // neither copied nor moved

  int64_t size() const { return size_; }
  // Updates the size of a local file. Returns true if the size has changed.
  bool refresh();
  // Returns bytes [offset, offset + size), which are valid until the next read into `buffer`.
  // Returns fewer bytes if the file ends earlier, for example because it was truncated after
  // refresh(). Throws FileReadError if an address cannot be read.
  std::span<const std::byte> read(int64_t offset, size_t size, ReadBuffer& buffer) const;

 private:
  int descriptor_ = -1;
  ByteSource remote_;  // content at an address; remote_.read is empty for local files
  int64_t size_ = 0;
};

}  // namespace mxlite::io
