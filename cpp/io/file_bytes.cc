#include "cpp/io/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mxlite::io {
namespace {

// Reads of remote files fetch at least this many bytes. A request takes longer than the transfer of
// these bytes.
constexpr size_t kRemoteAhead = 128 << 10;

ByteSource (*remote_opener)(const std::string& address) = nullptr;

bool holds_zero(const std::string& path) { return path.find('\0') != std::string::npos; }

}  // namespace

int open_to_read(const std::string& path) {
  if (holds_zero(path)) {  // the system would cut the name at the zero byte
    errno = ENOENT;
    return -1;
  }
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

void set_remote_opener(ByteSource (*open)(const std::string& address)) { remote_opener = open; }

FileBytes::FileBytes(const std::string& path, const std::string& who) {
  if (remote_opener && path.find("://") != std::string::npos) {
    remote_ = remote_opener(path);
    size_ = static_cast<int64_t>(remote_.size);
    return;
  }
  descriptor_ = open_to_read(path);
  struct stat info {};
  int reason = 0;
  if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) {
    reason = errno;
  } else if (!S_ISREG(info.st_mode)) {
    reason = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  }
  if (reason != 0) {
    if (descriptor_ >= 0) ::close(descriptor_);
    fail(ErrorKind::kRecord, who, " '", path.c_str(), "': cannot be opened: ",
         holds_zero(path)   ? "its name holds a zero byte"
         : reason == EINVAL ? "it is not a regular file"
                            : std::strerror(reason));
  }
  size_ = info.st_size;
}

FileBytes::~FileBytes() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool FileBytes::refresh() {
  struct stat info {};
  if (remote_.read || ::fstat(descriptor_, &info) != 0 || info.st_size == size_) return false;
  size_ = info.st_size;
  return true;
}

std::span<const std::byte> FileBytes::read(int64_t offset, size_t size, ReadBuffer& buffer) const {
  if (offset < 0 || offset >= size_) return {};
  const auto left = static_cast<size_t>(size_ - offset);
  size = std::min(size, left);
  const int64_t skipped = offset - buffer.begin_;
  if (skipped >= 0 && static_cast<size_t>(skipped) <= buffer.size_ &&
      size <= buffer.size_ - static_cast<size_t>(skipped))
    return {buffer.memory_.get() + skipped, size};
  const size_t ahead = remote_.read ? std::max(buffer.ahead_, kRemoteAhead) : buffer.ahead_;
  const size_t wanted = std::min(std::max(size, ahead), left);
  buffer.size_ = 0;
  if (buffer.capacity_ < wanted) {
    buffer.capacity_ = 0;
    buffer.memory_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
    buffer.capacity_ = wanted;
  }
  buffer.begin_ = offset;
  if (remote_.read) {
    remote_.read(static_cast<size_t>(offset), {buffer.memory_.get(), wanted});
    buffer.size_ = wanted;
  }
  while (buffer.size_ < wanted) {
    const ssize_t n = ::pread(descriptor_, buffer.memory_.get() + buffer.size_,
                              wanted - buffer.size_, offset + static_cast<int64_t>(buffer.size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    buffer.size_ += static_cast<size_t>(n);
  }
  return {buffer.memory_.get(), std::min(size, buffer.size_)};
}

}  // namespace mxlite::io
