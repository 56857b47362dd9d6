#include "cpp/io/text_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "cpp/base/str.h"

namespace mxlite::io {
namespace {

void skip_spaces(std::string_view& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  text.remove_prefix(begin == std::string_view::npos ? text.size() : begin);
}

// Removes a number and the spaces around it from the front of `text`. Returns false if `text` does
// not begin with a number, or if the number is out of the type's range.
template <class T>
bool take_number(std::string_view& text, T& value) {
  skip_spaces(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc()) return false;
  if constexpr (std::is_integral_v<T>) {
    // Accepts integers in floating-point form, because numpy.savetxt writes
    // 1.000000000000000000e+00.
    if (end != last && (*end == '.' || *end == 'e' || *end == 'E')) {
      constexpr double kMost = sizeof(T) < 8 ? 0x1p31 : 0x1p53;
      double whole = 0;
      end = std::from_chars(text.data(), last, whole).ptr;
      if (!(std::fabs(whole) < kMost) || std::trunc(whole) != whole) return false;
      value = static_cast<T>(whole);
    }
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  skip_spaces(text);
  return true;
}

template <class T>
void parse_csv(const TextFile& file, std::string_view line, int64_t columns, T* output) {
  std::string_view left = line;
  for (int64_t i = 0; i < columns; ++i) {
    if (!take_number(left, output[i]))
      file.fail_at(line, str("column ", i + 1, " of ", columns, " must be a number of the dtype"));
    const bool last = i + 1 == columns;
    if (left.empty() && !last)
      file.fail_at(line, str("the line must have ", columns, " columns, got ", i + 1));
    if (left.empty()) return;
    if (left.front() != ',')
      file.fail_at(line, str("column ", i + 1, " of ", columns, " must be a number of the dtype"));
    left.remove_prefix(1);
    // A line may end with one comma.
    skip_spaces(left);
    if (last && !left.empty())
      file.fail_at(line, str("the line must have ", columns, " columns, got more"));
  }
}

// Reads `rows` lines with take(line). At the end of the file, wraps around if `round` is true,
// otherwise calls missing(n).
template <class Take, class Missing>
int64_t read_wrapped(TextFile& file, int64_t rows, bool round, Take take, Missing missing) {
  std::string_view line;
  int64_t done = 0;
  for (; done < rows && file.next(line); ++done) take(line);
  if (done == 0 || done == rows) return done;
  const int64_t found = done;
  while (round && done < rows) {
    file.rewind();
    for (; done < rows && file.next(line); ++done) take(line);
  }
  file.skip_to_end();
  if (done < rows) missing(rows - done);
  return found;
}

}  // namespace

CsvReader::CsvReader(std::string path, int64_t columns, DType dtype)
    : file_(std::move(path), "CSVIter"), columns_(columns), dtype_(dtype) {
  MX_CHECK(columns > 0, "CSVIter: the number of columns must be at least 1, got ", columns);
  MX_CHECK_DTYPE(dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
                     dtype == DType::kInt64,
                 "CSVIter: dtype must be float32, float64, int32 or int64, got ", dtype);
}

void CsvReader::parse(std::string_view line, void* row) const {
  switch (dtype_) {
    case DType::kFloat32:
      return parse_csv(file_, line, columns_, static_cast<float*>(row));
    case DType::kFloat64:
      return parse_csv(file_, line, columns_, static_cast<double*>(row));
    case DType::kInt32:
      return parse_csv(file_, line, columns_, static_cast<int32_t*>(row));
    default:
      return parse_csv(file_, line, columns_, static_cast<int64_t*>(row));
  }
}

int64_t CsvReader::read(int64_t rows, bool round, void* output) {
  const auto bytes = static_cast<size_t>(columns_) * dtype_size(dtype_);
  auto* row = static_cast<std::byte*>(output);
  return read_wrapped(
      file_, rows, round,
      [&](std::string_view line) {
        parse(line, row);
        row += bytes;
      },
      [&](int64_t missing) { std::memset(row, 0, bytes * static_cast<size_t>(missing)); });
}

LibSvmReader::LibSvmReader(std::string path, int64_t width, int64_t part, int64_t parts)
    : file_(std::move(path), "LibSVMIter", part, parts), width_(width) {
  MX_CHECK(width > 0, "LibSVMIter: the number of columns must be at least 1, got ", width);
}

void LibSvmReader::sort_row(std::string_view line, size_t first, LibSvmRows& output) const {
  std::vector<std::pair<int64_t, float>> row;
  for (size_t i = first; i < output.columns.size(); ++i)
    row.emplace_back(output.columns[i], output.values[i]);
  std::sort(row.begin(), row.end(), [](auto& a, auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0 && row[i].first == row[i - 1].first)
      file_.fail_at(line, str("columns must be distinct, got ", row[i].first, " twice"));
    std::tie(output.columns[first + i], output.values[first + i]) = row[i];
  }
}

void LibSvmReader::parse(std::string_view line, LibSvmRows& output) const {
  std::string_view left = line.substr(0, line.find('#'));  // drops a comment
  float label = 0;
  if (!take_number(left, label))
    file_.fail_at(line, "the line must begin with a number, its label");
  output.labels.push_back(label);
  const size_t first = output.columns.size();
  bool sorted = true;
  int64_t before = -1;
  while (!left.empty()) {
    int64_t column = 0;
    float value = 0;
    if (!take_number(left, column) || left.empty() || left.front() != ':')
      file_.fail_at(line, "the label must be followed by pairs column:value");
    left.remove_prefix(1);
    if (!take_number(left, value))
      file_.fail_at(line, str("column ", column, " must have a number as its value"));
    if (column < 0 || column >= width_)
      file_.fail_at(line, str("columns must be in [0, ", width_ - 1, "], got ", column));
    sorted &= column > before;
    before = column;
    output.columns.push_back(column);
    output.values.push_back(value);
  }
  if (!sorted) sort_row(line, first, output);
  output.begins.push_back(static_cast<int64_t>(output.columns.size()));
}

int64_t LibSvmReader::read(int64_t rows, bool round, LibSvmRows& output) {
  MX_CHECK(rows >= 0 && rows <= INT32_MAX,
           "LibSVMIter: the number of rows must be in [0, 2147483647], got ", rows);
  // Fails before filling the batch with repeated rows if the batch does not fit into memory.
  output.labels.reserve(static_cast<size_t>(rows));
  output.begins.reserve(static_cast<size_t>(rows) + 1);
  return read_wrapped(
      file_, rows, round, [&](std::string_view line) { parse(line, output); },
      [&](int64_t missing) {
        const auto count = static_cast<size_t>(missing);
        output.labels.insert(output.labels.end(), count, 0.0F);
        output.begins.insert(output.begins.end(), count, output.begins.back());
      });
}

}  // namespace mxlite::io
