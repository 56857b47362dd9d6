// CSV and LibSVM files; the first two bytes choose reader and parameters.
#include "cpp/io/text_rows.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

namespace {

void read_csv(const std::string& path, int64_t columns, DType dtype, bool round) {
  io::CsvReader reader(path, columns, dtype);
  std::vector<int64_t> rows(static_cast<size_t>(5 * columns));
  while (reader.read(5, round, rows.data()) == 5) {
  }
}

void read_libsvm(const std::string& path, int64_t part, bool round) {
  io::LibSvmReader reader(path, 8, part, 3);
  io::LibSvmRows rows;
  while (reader.read(3, round, rows) == 3) {
  }
  for (const int64_t column : rows.columns)
    fuzz::require(column >= 0 && column < 8, "columns are in range");
  fuzz::require(rows.begins.size() == rows.labels.size() + 1, "each row has a label");
  fuzz::require(rows.begins.back() == std::ssize(rows.values), "rows end with the values");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const fuzz::MemoryFile file;
  file.write(std::as_bytes(std::span(data + 2, size - 2)));
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64};
  fuzz::expect(
      [&] {
        if (data[0] % 2) return read_libsvm(file.path(), data[1] % 3, data[1] & 64);
        read_csv(file.path(), 1 + data[1] % 5, kTypes[data[1] / 5 % 4], data[1] & 64);
      },
      {ErrorKind::kRecord});
  return 0;
}
