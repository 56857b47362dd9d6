// Reading RecordIO files through a memory map.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/error.h"

namespace mxlite::io {

struct Record {
  int64_t offset = 0;                // of its head in the file
  std::span<const std::byte> bytes;  // in the map, or in `glued`
  std::vector<std::byte> glued;      // of a record that was written in parts
};

// Const functions may be called by several threads.
class RecordFile {
 public:
  // Throws kRecord when the file cannot be read.
  explicit RecordFile(std::string path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  // Maps what was appended since; spans of records read before are no longer valid.
  void refresh();

  // The record whose head is at offset; returns the offset behind it. Throws kRecord with file,
  // number (when not negative) and offset if there is no whole record.
  int64_t read(int64_t offset, Record& record, int64_t number = -1) const;
  // The first head of a record at or behind offset; size() if there is none.
  int64_t find_head(int64_t offset) const;

 private:
  struct Part;
  std::optional<Part> part_at(int64_t offset, std::string* problem) const;
  void map();
  void unmap() noexcept;

  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// A position that moves from record to record of a file.
class RecordReader {
 public:
  explicit RecordReader(std::string path) : file_(std::move(path)) {}

  // False at the end. After an error the position is behind the damage, at the next head.
  bool next(Record& record);
  void seek(int64_t offset);
  int64_t tell() const { return position_; }
  const RecordFile& file() const { return file_; }

 private:
  RecordFile file_;
  int64_t position_ = 0;
  int64_t number_ = 0;  // of the next record; negative after a seek, when it is not known
};

}  // namespace mxlite::io
