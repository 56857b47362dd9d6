// Lines of a text file, or of one part of it, through a memory map.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/error.h"

namespace mxlite::io {

class TextFile {
 public:
  // Part `part` of `parts` begins with the first line that starts at or behind its share of the
  // bytes: every line is in one part. who: the reader, for errors. Throws kRecord.
  TextFile(std::string path, std::string who, int64_t part = 0, int64_t parts = 1);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  // The next line that is not blank, without its end; false at the end.
  bool next(std::string_view& line);
  void rewind() { position_ = begin_; }
  void skip_to_end() { position_ = end_; }
  // Throws kRecord naming the file and the number of a line that next() gave.
  [[noreturn]] void fail_at(std::string_view line, const std::string& problem) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_, who_;
  std::string_view text_;
  size_t begin_ = 0, end_ = 0, position_ = 0;
};

}  // namespace mxlite::io
