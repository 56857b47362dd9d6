// Reads RecordIO files.
#pragma once
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/io/file_bytes.h"
#include "cpp/io/record_format.h"

namespace mxlite::io {

// A record that was read. Its memory is reused for the next record.
struct Record {
  int64_t offset = 0;                // offset of its head in the file
  std::span<const std::byte> bytes;  // content; points into the read's buffer or into `glued`
  std::vector<std::byte> glued;      // memory of a record that was joined from parts
  ReadBuffer buffer;
};

// Const functions are thread-safe.
class RecordFile {
 public:
  // Throws a record error if the file cannot be read.
  explicit RecordFile(std::string path) : path_(std::move(path)), file_(path_, "record file") {}

  const std::string& path() const { return path_; }
  int64_t size() const { return file_.size(); }
  // Updates the file's size. Returns true if the size has changed.
  bool refresh() { return file_.refresh(); }

  // Reads the record whose head is at `offset`. Returns the offset after the record. If no complete
  // record exists, throws a record error that names the file, `number` (if >= 0) and `offset`.
  int64_t read(int64_t offset, Record& record, int64_t number = -1) const {
    return read(offset, record, record.buffer, number);
  }
  // Like the function above, but reads into `buffer` instead of the record's own buffer.
  int64_t read(int64_t offset, Record& record, ReadBuffer& buffer, int64_t number) const;
  // Returns the offset of the first head at or after `offset`, or size() if no head follows.
  int64_t find_head(int64_t offset) const;
  // Returns the head at `offset`, or nullopt if no part of a record begins there.
  std::optional<PartHead> head_at(int64_t offset, ReadBuffer& buffer) const;

 private:
  struct ReadPart;
  std::optional<ReadPart> part_at(int64_t offset, ReadBuffer& buffer, std::string* problem) const;

  std::string path_;
  FileBytes file_;
};

// Reads a file record by record.
class RecordReader {
 public:
  explicit RecordReader(std::string path) : file_(std::move(path)) {}

  // Returns false at the end of the file. After an error, the position is the first head after the
  // damage. The record's bytes stay valid until the next call.
  bool next(Record& record);
  void seek(int64_t offset);
  int64_t tell() const { return position_; }
  const RecordFile& file() const { return file_; }

 private:
  static constexpr size_t kReadAhead = 128 << 10;

  std::unique_lock<std::recursive_mutex> lock();

  RecordFile file_;
  // Taken without holding the GIL, because a thread that reads from an address releases the GIL
  // while it holds this mutex.
  std::recursive_mutex mutex_;
  ReadBuffer buffer_{kReadAhead};
  int64_t position_ = 0;
  int64_t number_ = 0;  // number of the next record; negative if unknown, after a seek
};

}  // namespace mxlite::io
