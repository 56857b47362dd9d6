#include "cpp/io/record_file.h"

#include <algorithm>

#include "cpp/base/file_error.h"
#include "cpp/io/interruptible.h"

namespace mxlite::io {
namespace {

constexpr int64_t kHeadSize = 8;

// Returns the first offset that is a multiple of 4 and has the magic word, or -1 if no such offset
// exists.
int64_t find_magic(std::span<const std::byte> bytes) {
  const size_t words = bytes.size() / 4;
  constexpr size_t kBlock = 64;  // words per branch, so that the inner loop is vectorized
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

struct RecordFile::ReadPart {
  PartHead head;
  std::span<const std::byte> bytes;
  int64_t end;
};

std::optional<PartHead> RecordFile::head_at(int64_t offset, ReadBuffer& buffer) const {
  const auto bytes = file_.read(offset, kHeadSize, buffer);
  if (bytes.size() < kHeadSize || load_word(bytes.data()) != kRecordMagic) return std::nullopt;
  const uint32_t word = load_word(bytes.data() + 4);
  if (!valid_part(word)) return std::nullopt;
  return decode_part(word);
}

// Detects a length that is too large, because the payload then contains another head. Writers never
// leave the magic word in a payload.
std::optional<RecordFile::ReadPart> RecordFile::part_at(int64_t offset, ReadBuffer& buffer,
                                                        std::string* problem) const {
  if (offset < 0 || offset % 4 != 0) {
    *problem = "the offset is not a multiple of 4";
    return std::nullopt;
  }
  if (size() - offset < kHeadSize) {
    *problem = str("the head of 8 bytes reaches beyond the end of the file of ", size(), " bytes");
    return std::nullopt;
  }
  const auto truncated = [&] {
    *problem = str("the file of ", size(), " bytes was truncated while it was read");
    return std::nullopt;
  };
  if (file_.read(offset, kHeadSize, buffer).size() < kHeadSize) return truncated();
  const std::optional<PartHead> head = head_at(offset, buffer);
  if (!head) {
    *problem = "no record begins here (wrong magic number)";
    return std::nullopt;
  }
  const int64_t begin = offset + kHeadSize;
  if (head->length > size() - begin) {
    *problem = str("its length of ", head->length, " bytes reaches beyond the end of the file of ",
                   size(), " bytes");
    return std::nullopt;
  }
  // A file may end without the last record's padding.
  const int64_t end = std::min(begin + padded(head->length), size());
  std::span<const std::byte> payload;
  // Searches growing prefixes to detect a wrong length before all bytes are read.
  for (int64_t size = 128 << 10; std::ssize(payload) < end - begin; size *= 4) {
    const size_t searched = payload.size();
    const int64_t wanted = std::min(size, end - begin);
    payload = file_.read(begin, static_cast<size_t>(wanted), buffer);
    if (std::ssize(payload) < wanted) return truncated();
    if (find_magic(payload.subspan(searched)) >= 0) {
      *problem = str("its length of ", head->length, " bytes reaches into the next record");
      return std::nullopt;
    }
  }
  return ReadPart{*head, payload.first(head->length), end};
}

int64_t RecordFile::read(int64_t offset, Record& record, ReadBuffer& buffer, int64_t number) const {
  std::string problem;
  const auto damaged = [&] {
    const std::string which = number < 0 ? "record" : str("record ", number);
    fail(ErrorKind::kRecord, "record file '", path_, "': ", which, " at offset ", offset, ": ",
         problem);
  };
  std::optional<ReadPart> part = part_at(offset, buffer, &problem);
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
    part = part_at(part->end, buffer, &problem);
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
  const auto begins_record = [](PartHead head) {
    return head.part == RecordPart::kWhole || head.part == RecordPart::kFirst;
  };
  ReadBuffer buffer;
  offset = padded(std::max<int64_t>(offset, 0));
  const std::optional<PartHead> head = head_at(offset, buffer);  // common case: reads 8 bytes
  if (head && begins_record(*head)) return offset;
  constexpr size_t kLargestBlock = 1 << 20;
  InterruptCheck check_interrupt;
  for (size_t wanted = 4096; offset + kHeadSize <= size();
       wanted = std::min(4 * wanted, kLargestBlock)) {
    check_interrupt();
    const auto block = file_.read(offset, wanted, buffer);
    size_t at = 0;
    while (at + kHeadSize <= block.size()) {
      const int64_t step = find_magic(block.subspan(at));
      at = step < 0 ? block.size() / 4 * 4 : at + static_cast<size_t>(step);
      if (step < 0 || at + kHeadSize > block.size()) break;
      const uint32_t word = load_word(&block[at + 4]);
      if (valid_part(word) && begins_record(decode_part(word)))
        return offset + static_cast<int64_t>(at);
      at += 4;
    }
    if (at == 0) break;  // the file was truncated during the search
    offset += static_cast<int64_t>(at);
  }
  return size();
}

std::unique_lock<std::recursive_mutex> RecordReader::lock() {
  std::unique_lock held(mutex_, std::try_to_lock);
  if (!held) {
    const engine::BlockingScope blocking;
    held.lock();
  }
  return held;
}

bool RecordReader::next(Record& record) {
  const auto held = lock();
  if (position_ >= file_.size() && file_.refresh()) buffer_.forget();
  if (position_ >= file_.size()) return false;
  const int64_t number = number_;
  if (number_ >= 0) ++number_;
  try {
    position_ = file_.read(position_, record, buffer_, number);
  } catch (const FileReadError&) {  // the next call tries to read the same record
    number_ = number;
    throw;
  } catch (const Error&) {
    position_ = file_.find_head(position_ + 4);
    throw;
  }
  return true;
}

void RecordReader::seek(int64_t offset) {
  const auto held = lock();
  if (file_.refresh()) buffer_.forget();
  MX_CHECK_KIND(offset >= 0 && offset <= file_.size(), ErrorKind::kRecord, "record file '",
                file_.path(), "': the offset of a seek must be in [0, ", file_.size(), "], got ",
                offset);
  position_ = offset;
  number_ = offset == 0 ? 0 : -1;
}

}  // namespace mxlite::io
