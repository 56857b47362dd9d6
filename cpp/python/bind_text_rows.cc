// Readers of CSV and LibSVM files for mxlite.io.
#include <cstring>

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

struct CsvSource {
  io::CsvReader reader;
  int64_t columns;
  DType dtype;
};

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
            NDArrayRef array = NDArray::empty({{rows, self.columns}, self.dtype}, Device{});
            const int64_t found = self.reader.read(rows, round, array->data());
            return std::pair(std::move(array), found);
          },
          py::arg("rows"), py::arg("round"),
          "(array, rows that were left); with round the others are the first, else zeros.")
      .def("rewind", [](CsvSource& self) { self.reader.rewind(); });
  py::class_<io::LibSvmReader>(m, "LibSvmReader", "Rows of a LibSVM file.")
      .def(py::init<std::string, int64_t, int64_t, int64_t>(), py::arg("path"), py::arg("width"),
           py::arg("part"), py::arg("parts"))
      .def(
          "read",
          [](io::LibSvmReader& self, int64_t rows, bool round) {
            io::LibSvmRows read;
            int64_t found = 0;
            {
              const GilRelease released;
              found = self.read(rows, round, read);
            }
            return py::make_tuple(
                copied(read.values, DType::kFloat32), copied(read.columns, DType::kInt64),
                copied(read.begins, DType::kInt64), copied(read.labels, DType::kFloat32), found);
          },
          py::arg("rows"), py::arg("round"), "(values, columns, begins, labels, rows left)")
      .def("rewind", &io::LibSvmReader::rewind);
}

}  // namespace mxlite::python
