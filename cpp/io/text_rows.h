// Rows of numbers from CSV and LibSVM files.
#pragma once
#include <cstddef>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/io/text_file.h"

namespace mxlite::io {

class CsvReader {
 public:
  // Each line has `columns` numbers separated by commas; dtype: float32, float64, int32 or int64.
  CsvReader(std::string path, int64_t columns, DType dtype);

  // Reads `rows` rows, returns how many of them the file still had: with `round` the others are
  // the file's first, else zeros. Throws kRecord naming the line.
  int64_t read(int64_t rows, bool round, void* output);
  void rewind() { file_.rewind(); }

 private:
  void parse(std::string_view line, void* row) const;

  TextFile file_;
  int64_t columns_;
  DType dtype_;
};

// Rows of a sparse matrix and the numbers before them.
struct LibSvmRows {
  std::vector<float> values;
  std::vector<int64_t> columns, begins{0};
  std::vector<float> labels;
};

class LibSvmReader {
 public:
  // A line is a label and `column:value` pairs; columns begin at 0 and are below `width`. Rows
  // are sorted by column.
  LibSvmReader(std::string path, int64_t width, int64_t part, int64_t parts);

  // Like CsvReader::read; the rows are appended.
  int64_t read(int64_t rows, bool round, LibSvmRows& output);
  void rewind() { file_.rewind(); }

 private:
  void parse(std::string_view line, LibSvmRows& output) const;
  // Sorts the pairs from `first` on by column; each column may be given once.
  void sort_row(std::string_view line, size_t first, LibSvmRows& output) const;

  TextFile file_;
  int64_t width_;
};

}  // namespace mxlite::io
