// Reads lines of a text file, or of one part of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/io/file_bytes.h"

namespace mxlite::io {

class TextFile {
 public:
  // Reads the lines that start in byte range `part` of `parts` equal ranges. Each line is thus in
  // exactly one part. Throws a record error that begins with `who` if the file cannot be read.
  TextFile(std::string path, std::string who, int64_t part = 0, int64_t parts = 1);

  // Gets the next line that is not blank, without its line end. Returns false at the end of the
  // part. The line is valid until the next call. Throws a record error if the file was truncated.
  bool next(std::string_view& line);
  void rewind() { position_ = begin_; }
  void skip_to_end() { position_ = end_; }
  // Throws a record error that names the file and the number of the line that next() returned last.
  [[noreturn]] void fail_at(std::string_view line, const std::string& problem) const;
  const std::string& path() const { return path_; }

 private:
  // Returns the offset after the first line end at or after `offset`, or `limit` if there is none.
  int64_t line_end(int64_t offset, int64_t limit);
  std::string_view text(int64_t offset, size_t size, ReadBuffer& buffer) const;

  std::string path_, who_;
  FileBytes file_;
  ReadBuffer buffer_;
  int64_t begin_ = 0, end_ = 0, position_ = 0;
  int64_t line_begin_ = 0;  // offset of the line that next() returned last
};

}  // namespace mxlite::io
