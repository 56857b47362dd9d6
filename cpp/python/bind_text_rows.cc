// Readers of CSV and LibSVM files for mxlite.io.
#include <cstring>
#include <mutex>

#include "cpp/io/text_rows.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

template <class T>
NDArrayRef copied(const std::vector<T>& values, DType dtype) {
  const auto count = static_cast<int64_t>(values.size());
  NDArrayRef array = NDArray::empty({{count}, dtype}, Device{});
  if (count > 0) std::memcpy(array->data(), values.data(), values.size() * sizeof(T));
  return array;
}

// The mutex protects a reader that several threads share. A thread locks it without holding the
// GIL, so that a waiting thread does not block other Python threads.
struct CsvSource {
  io::CsvReader reader;
  int64_t columns;
  DType dtype;
  std::mutex mutex{};
};

struct LibSvmSource {
  io::LibSvmReader reader;
  std::mutex mutex{};
};

template <class Source>
void rewind(Source& source) {
  const GilRelease released;
  const std::lock_guard lock(source.mutex);
  source.reader.rewind();
}

}  // namespace

void bind_text_rows(py::module_& m) {
  py::class_<CsvSource>(m, "CsvReader", "Rows of a CSV file.")
      .def(py::init([](const std::string& path, int64_t columns, const py::object& dtype) {
             const DType type = require_dtype(dtype, "CSVIter");
             return std::unique_ptr<CsvSource>(
                 new CsvSource{io::CsvReader(path, columns, type), columns, type});
           }),
           py::arg("path"), py::arg("columns"), py::arg("dtype"))
      .def(
          "read",
          [](CsvSource& self, int64_t rows, bool round) {
            const GilRelease released;
            const std::lock_guard lock(self.mutex);
            NDArrayRef array = NDArray::empty({{rows, self.columns}, self.dtype}, Device{});
            const int64_t found = self.reader.read(rows, round, array->data());
            return std::pair(std::move(array), found);
          },
          py::arg("rows"), py::arg("round"),
          "(array, rows that were left); with round the others are the first, else zeros.")
      .def("rewind", &rewind<CsvSource>);
  py::class_<LibSvmSource>(m, "LibSvmReader", "Rows of a LibSVM file.")
      .def(py::init([](const std::string& path, int64_t width, int64_t part, int64_t parts) {
             return std::unique_ptr<LibSvmSource>(
                 new LibSvmSource{io::LibSvmReader(path, width, part, parts)});
           }),
           py::arg("path"), py::arg("width"), py::arg("part"), py::arg("parts"))
      .def(
          "read",
          [](LibSvmSource& self, int64_t rows, bool round) {
            io::LibSvmRows read;
            int64_t found = 0;
            {
              const GilRelease released;
              const std::lock_guard lock(self.mutex);
              found = self.reader.read(rows, round, read);
            }
            return py::make_tuple(
                copied(read.values, DType::kFloat32), copied(read.columns, DType::kInt64),
                copied(read.begins, DType::kInt64), copied(read.labels, DType::kFloat32), found);
          },
          py::arg("rows"), py::arg("round"), "(values, columns, begins, labels, rows left)")
      .def("rewind", &rewind<LibSvmSource>);
}

}  // namespace mxlite::python
