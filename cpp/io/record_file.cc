#include "cpp/io/record_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cpp/io/record_format.h"

namespace mxlite::io {
namespace {

constexpr int64_t kHeadSize = 8;

// Offset of the first magic word in bytes, looking at every fourth byte; -1: none.
int64_t find_magic(std::span<const std::byte> bytes) {
  const size_t words = bytes.size() / 4;
  constexpr size_t kBlock = 64;  // words looked at before branching: the inner loop is vectorized
  for (size_t begin = 0; begin < words; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, words);
    uint32_t found = 0;
    for (size_t i = begin; i < end; ++i) found |= load_word(&bytes[4 * i]) == kRecordMagic;
    if (!found) continue;
    for (size_t i = begin; i < end; ++i)
      if (load_word(&bytes[4 * i]) == kRecordMagic) return static_cast<int64_t>(4 * i);
  }
  return -1;
}

}  // namespace

struct RecordFile::Part {
  PartHead head;
  std::span<const std::byte> bytes;
  int64_t end;
};

RecordFile::RecordFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  MX_CHECK_KIND(descriptor_ >= 0, ErrorKind::kRecord, "record file '", path_,
                "': cannot be opened: ", std::strerror(errno));
  try {
    map();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() {
  unmap();
  ::close(descriptor_);
}

void RecordFile::map() {
  struct stat info {};
  MX_CHECK_KIND(::fstat(descriptor_, &info) == 0, ErrorKind::kRecord, "record file '", path_,
                "': cannot be read: ", std::strerror(errno));
  MX_CHECK_KIND(S_ISREG(info.st_mode), ErrorKind::kRecord, "record file '", path_,
                "': is not a regular file");
  size_ = info.st_size;
  if (size_ == 0) return;
  void* address =
      ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) {
    const int reason = errno;
    size_ = 0;
    fail(ErrorKind::kRecord, "record file '", path_,
         "': cannot be mapped: ", std::strerror(reason));
  }
  data_ = static_cast<const std::byte*>(address);
}

void RecordFile::unmap() noexcept {
  if (data_) ::munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  data_ = nullptr;
  size_ = 0;
}

void RecordFile::refresh() {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0 || info.st_size == size_) return;
  unmap();
  map();
}

// A length that was made too large swallows the heads behind it, so the payload is searched for
// one: a writer never leaves the magic there.
std::optional<RecordFile::Part> RecordFile::part_at(int64_t offset, std::string* problem) const {
  if (offset < 0 || offset % 4 != 0) {
    *problem = "the offset is not a multiple of 4";
    return std::nullopt;
  }
  if (size_ - offset < kHeadSize) {
    *problem = str("the head of 8 bytes reaches beyond the end of the file of ", size_, " bytes");
    return std::nullopt;
  }
  const uint32_t magic = load_word(data_ + offset), word = load_word(data_ + offset + 4);
  if (magic != kRecordMagic || !valid_part(word)) {
    *problem = "no record begins here (wrong magic number)";
    return std::nullopt;
  }
  const PartHead head = decode_part(word);
  const int64_t begin = offset + kHeadSize;
  if (head.length > size_ - begin) {
    *problem = str("its length of ", head.length, " bytes reaches beyond the end of the file of ",
                   size_, " bytes");
    return std::nullopt;
  }
  // A file may end without the last record's padding.
  const int64_t end = std::min(begin + padded(head.length), size_);
  const std::span payload(data_ + begin, head.length);
  if (find_magic({data_ + begin, data_ + end}) >= 0) {
    *problem = str("its length of ", head.length, " bytes reaches into the next record");
    return std::nullopt;
  }
  return Part{head, payload, end};
}

int64_t RecordFile::read(int64_t offset, Record& record, int64_t number) const {
  std::string problem;
  const auto damaged = [&] {
    const std::string which = number < 0 ? "record" : str("record ", number);
    fail(ErrorKind::kRecord, "record file '", path_, "': ", which, " at offset ", offset, ": ",
         problem);
  };
  std::optional<Part> part = part_at(offset, &problem);
  if (!part) damaged();
  record.offset = offset;
  if (part->head.part == RecordPart::kWhole) {
    record.bytes = part->bytes;
    return part->end;
  }
  if (part->head.part != RecordPart::kFirst) {
    problem = "the middle of a divided record, whose beginning is lost";
    damaged();
  }
  record.glued.assign(part->bytes.begin(), part->bytes.end());
  const std::span magic = std::as_bytes(std::span(&kRecordMagic, 1));
  while (part->head.part != RecordPart::kLast) {
    part = part_at(part->end, &problem);
    if (part && part->head.part != RecordPart::kMiddle && part->head.part != RecordPart::kLast) {
      problem = "a new record begins before its last part";
      part.reset();
    }
    if (!part) damaged();
    record.glued.insert(record.glued.end(), magic.begin(), magic.end());
    record.glued.insert(record.glued.end(), part->bytes.begin(), part->bytes.end());
  }
  record.bytes = record.glued;
  return part->end;
}

int64_t RecordFile::find_head(int64_t offset) const {
  for (offset = padded(std::max<int64_t>(offset, 0)); offset + kHeadSize <= size_; offset += 4) {
    const int64_t step = find_magic(bytes().subspan(static_cast<size_t>(offset)));
    if (step < 0) break;
    offset += step;
    if (offset + kHeadSize > size_) break;
    const uint32_t word = load_word(data_ + offset + 4);
    const RecordPart part = decode_part(word).part;
    if (valid_part(word) && (part == RecordPart::kWhole || part == RecordPart::kFirst))
      return offset;
  }
  return size_;
}

bool RecordReader::next(Record& record) {
  if (position_ >= file_.size()) file_.refresh();
  if (position_ >= file_.size()) return false;
  const int64_t number = number_;
  if (number_ >= 0) ++number_;
  try {
    position_ = file_.read(position_, record, number);
  } catch (const Error&) {
    position_ = file_.find_head(position_ + 4);
    throw;
  }
  return true;
}

void RecordReader::seek(int64_t offset) {
  file_.refresh();
  MX_CHECK_KIND(offset >= 0 && offset <= file_.size(), ErrorKind::kRecord, "record file '",
                file_.path(), "': seek to offset ", offset, ", the file has ", file_.size(),
                " bytes");
  position_ = offset;
  number_ = offset == 0 ? 0 : -1;
}

}  // namespace mxlite::io
