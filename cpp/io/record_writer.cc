#include "cpp/io/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/io/record_format.h"

namespace mxlite::io {
namespace {

constexpr size_t kBufferSize = 1 << 20;

// Returns the first offset of the magic word at or after `begin`, a multiple of 4. Returns size if
// no magic word follows.
size_t find_magic(std::span<const std::byte> bytes, size_t begin) {
  constexpr size_t kBlock = 1024;  // bytes compared without a branch, vectorized
  while (begin + kBlock <= bytes.size()) {
    uint32_t found = 0;
    for (size_t i = 0; i < kBlock; i += 4) found |= load_word(&bytes[begin + i]) == kRecordMagic;
    if (found) break;
    begin += kBlock;
  }
  for (; begin + 4 <= bytes.size(); begin += 4)
    if (load_word(&bytes[begin]) == kRecordMagic) return begin;
  return bytes.size();
}

}  // namespace

RecordWriter::RecordWriter(std::string path) : path_(std::move(path)), owner_(::getpid()) {
  MX_CHECK_KIND(path_.find('\0') == std::string::npos, ErrorKind::kRecord, "record file '",
                path_.c_str(), "': cannot be created: its name holds a zero byte");
  // Replaces the file instead of truncating it, because a process that has mapped the file would
  // get SIGBUS.
  std::error_code ignored;
  const auto target = std::filesystem::canonical(path_, ignored);
  if (!ignored && std::filesystem::is_regular_file(target, ignored) &&
      ::access(target.c_str(), W_OK) == 0)
    ::unlink(target.c_str());
  const std::string& name = target.empty() ? path_ : target.native();
  descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  MX_CHECK_KIND(descriptor_ >= 0, ErrorKind::kRecord, "record file '", path_,
                "': cannot be created: ", std::strerror(errno));
}

RecordWriter::RecordWriter(std::string path, int64_t keep)
    : path_(std::move(path)), owner_(::getpid()), position_(keep) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const auto size = descriptor_ < 0 ? -1 : ::lseek(descriptor_, 0, SEEK_END);
  if (keep < 0 || keep > size || keep % 4 != 0 || ::ftruncate(descriptor_, keep) != 0 ||
      ::lseek(descriptor_, keep, SEEK_SET) != keep) {
    const int reason = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    fail(ErrorKind::kRecord, "record file '", path_, "' of ", size,
         " bytes cannot be cut at offset ", keep, " to append records: ", std::strerror(reason));
  }
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (const std::exception&) {
  }
}

void RecordWriter::check(size_t record_size) const {
  MX_CHECK_KIND(descriptor_ >= 0, ErrorKind::kRecord, "record file '", path_, "': is closed");
  MX_CHECK(record_size <= kMaxPartLength, "record file '", path_, "': a record must have at most ",
           kMaxPartLength, " bytes, got ", record_size);
}

void RecordWriter::make_room(size_t bytes) {
  if (used_ + bytes <= capacity_) return;
  flush();
  if (bytes <= capacity_) return;
  const size_t wanted = std::max(bytes, kBufferSize);
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
  capacity_ = wanted;
}

void RecordWriter::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  make_room(bytes.size());
  std::memcpy(&buffer_[used_], bytes.data(), bytes.size());
  used_ += bytes.size();
  position_ += static_cast<int64_t>(bytes.size());
}

void RecordWriter::append_part(uint32_t word, std::span<const std::byte> bytes) {
  const uint32_t head[] = {kRecordMagic, word};
  append(std::as_bytes(std::span(head)));
  append(bytes);
}

void RecordWriter::pad() {
  static constexpr std::byte kZeros[4] = {};
  append(std::span(kZeros).first(static_cast<size_t>(padded(position_) - position_)));
}

void RecordWriter::write(std::span<const std::byte> record) {
  check(record.size());
  size_t begin = 0;
  const auto length_from = [&](size_t end) { return static_cast<uint32_t>(end - begin); };
  for (size_t i = 0; (i = find_magic(record, i)) < record.size(); i += 4) {
    const auto part = begin == 0 ? RecordPart::kFirst : RecordPart::kMiddle;
    append_part(encode_part({part, length_from(i)}), record.subspan(begin, i - begin));
    begin = i + 4;
  }
  const auto part = begin == 0 ? RecordPart::kWhole : RecordPart::kLast;
  append_part(encode_part({part, length_from(record.size())}), record.subspan(begin));
  pad();
}

void RecordWriter::write(size_t size, const std::function<void(std::span<std::byte>)>& fill) {
  check(size);
  const uint32_t head[] = {kRecordMagic,
                           encode_part({RecordPart::kWhole, static_cast<uint32_t>(size)})};
  make_room(sizeof head + size);
  const std::span<std::byte> record(&buffer_[used_ + sizeof head], size);
  fill(record);
  if (find_magic(record, 0) < size) {  // the record must be split at the magic word
    const std::vector<std::byte> copy(record.begin(), record.end());
    write(copy);
    return;
  }
  std::memcpy(&buffer_[used_], head, sizeof head);
  used_ += sizeof head + size;
  position_ += static_cast<int64_t>(sizeof head + size);
  pad();
}

void RecordWriter::flush() {
  if (descriptor_ < 0 || owner_ != ::getpid()) return;
  std::span<const std::byte> left(buffer_.get(), used_);
  while (!left.empty()) {
    const ssize_t count = ::write(descriptor_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int reason = errno;
      std::memmove(buffer_.get(), left.data(), left.size());
      used_ = left.size();
      fail(ErrorKind::kRecord, "record file '", path_,
           "': cannot be written: ", std::strerror(reason));
    }
    left = left.subspan(static_cast<size_t>(count));
  }
  used_ = 0;
}

void RecordWriter::sync() {
  flush();
  MX_CHECK_KIND(descriptor_ < 0 || ::fdatasync(descriptor_) == 0, ErrorKind::kRecord,
                "record file '", path_, "': cannot be written: ", std::strerror(errno));
}

void RecordWriter::close() {
  if (descriptor_ < 0) return;
  const int descriptor = descriptor_;
  try {
    flush();
  } catch (...) {
    descriptor_ = -1;
    ::close(descriptor);
    throw;
  }
  descriptor_ = -1;
  MX_CHECK_KIND(::close(descriptor) == 0, ErrorKind::kRecord, "record file '", path_,
                "': cannot be written: ", std::strerror(errno));
}

}  // namespace mxlite::io
