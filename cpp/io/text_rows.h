// Reads rows of numbers from CSV and LibSVM files.
#pragma once
#include <cstddef>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/io/text_file.h"

namespace mxlite::io {

class CsvReader {
 public:
  // Each line must have `columns` numbers. `dtype` is float32, float64, int32 or int64.
  CsvReader(std::string path, int64_t columns, DType dtype);

  // Reads `rows` rows. Returns the number of rows that the file still had. The remaining rows are
  // filled with the file's first rows if `round` is true, otherwise with zeros. Throws a record
  // error that names the line.
  int64_t read(int64_t rows, bool round, void* output);
  void rewind() { file_.rewind(); }

 private:
  void parse(std::string_view line, void* row) const;

  TextFile file_;
  int64_t columns_;
  DType dtype_;
};

// Rows of a sparse matrix in csr format (values, columns, begins), and their labels.
struct LibSvmRows {
  std::vector<float> values;
  std::vector<int64_t> columns, begins{0};
  std::vector<float> labels;
};

class LibSvmReader {
 public:
  // A line consists of a label and `column:value` pairs with 0 <= column < width in any order.
  // Returned rows are sorted by column.
  LibSvmReader(std::string path, int64_t width, int64_t part, int64_t parts);

  // Like CsvReader::read, but appends the rows to `output`.
  int64_t read(int64_t rows, bool round, LibSvmRows& output);
  void rewind() { file_.rewind(); }

 private:
  void parse(std::string_view line, LibSvmRows& output) const;
  // Sorts the pairs from index `first` on by column. Throws if a column occurs twice.
  void sort_row(std::string_view line, size_t first, LibSvmRows& output) const;

  TextFile file_;
  int64_t width_;
};

}  // namespace mxlite::io
