#include "cpp/io/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cpp/base/error.h"
#include "cpp/io/record_format.h"

namespace mxlite::io {
namespace {

constexpr size_t kBufferSize = 1 << 20;

}  // namespace

RecordWriter::RecordWriter(std::string path) : path_(std::move(path)), owner_(::getpid()) {
  // A new file instead of a truncated one: a reader's map of a truncated file ends in SIGBUS.
  std::error_code ignored;
  const auto target = std::filesystem::canonical(path_, ignored);
  if (!ignored && std::filesystem::is_regular_file(target, ignored) &&
      ::access(target.c_str(), W_OK) == 0)
    ::unlink(target.c_str());
  const std::string& name = target.empty() ? path_ : target.native();
  descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  MX_CHECK_KIND(descriptor_ >= 0, ErrorKind::kRecord, "record file '", path_,
                "': cannot be created: ", std::strerror(errno));
  buffer_.reserve(kBufferSize);
}

RecordWriter::RecordWriter(std::string path, int64_t keep)
    : path_(std::move(path)), owner_(::getpid()), position_(keep) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  const auto size = descriptor_ < 0 ? -1 : ::lseek(descriptor_, 0, SEEK_END);
  if (keep < 0 || keep > size || keep % 4 != 0 || ::ftruncate(descriptor_, keep) != 0 ||
      ::lseek(descriptor_, keep, SEEK_SET) != keep) {
    const int reason = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    fail(ErrorKind::kRecord, "record file '", path_, "': of ", size,
         " bytes: cannot be continued at ", keep, ": ", std::strerror(reason));
  }
  buffer_.reserve(kBufferSize);
}

RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (const Error&) {
  }
}

void RecordWriter::append(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferSize) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  position_ += static_cast<int64_t>(bytes.size());
}

void RecordWriter::append_part(uint32_t word, std::span<const std::byte> bytes) {
  const uint32_t head[] = {kRecordMagic, word};
  append(std::as_bytes(std::span(head)));
  append(bytes);
}

void RecordWriter::write(std::span<const std::byte> record) {
  MX_CHECK_KIND(descriptor_ >= 0, ErrorKind::kRecord, "record file '", path_, "': is closed");
  MX_CHECK(record.size() <= kMaxPartLength, "record file '", path_, "': a record of ",
           record.size(), " bytes given, at most ", kMaxPartLength, " fit");
  size_t begin = 0;
  const auto length_from = [&](size_t end) { return static_cast<uint32_t>(end - begin); };
  for (size_t i = 0; i + 4 <= record.size(); i += 4) {
    if (load_word(&record[i]) != kRecordMagic) continue;
    const auto part = begin == 0 ? RecordPart::kFirst : RecordPart::kMiddle;
    append_part(encode_part({part, length_from(i)}), record.subspan(begin, i - begin));
    begin = i + 4;
  }
  const auto part = begin == 0 ? RecordPart::kWhole : RecordPart::kLast;
  append_part(encode_part({part, length_from(record.size())}), record.subspan(begin));
  static constexpr std::byte kZeros[4] = {};
  append(std::span(kZeros).first(static_cast<size_t>(padded(position_) - position_)));
}

void RecordWriter::flush() {
  if (descriptor_ < 0 || owner_ != ::getpid()) return;
  std::span<const std::byte> left = buffer_;
  while (!left.empty()) {
    const ssize_t count = ::write(descriptor_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int reason = errno;
      buffer_.erase(buffer_.begin(), buffer_.end() - static_cast<ptrdiff_t>(left.size()));
      fail(ErrorKind::kRecord, "record file '", path_,
           "': cannot be written: ", std::strerror(reason));
    }
    left = left.subspan(static_cast<size_t>(count));
  }
  buffer_.clear();
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
