// RecordIO files and JPEG encoding for mxlite.recordio.
#include "cpp/io/encode.h"
#include "cpp/io/record_file.h"
#include "cpp/io/record_writer.h"
#include "cpp/python/bind.h"

namespace mxlite::python {
namespace {

py::bytes to_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ContiguousBytes {
 public:
  ContiguousBytes(const py::object& object, const char* who) {
    if (!PyObject_CheckBuffer(object.ptr()))
      fail(ErrorKind::kType, who, ": ", std::string(py::str(py::type::of(object))),
           " given, bytes expected");
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~ContiguousBytes() { PyBuffer_Release(&view_); }
  ContiguousBytes(const ContiguousBytes&) = delete;
  ContiguousBytes& operator=(const ContiguousBytes&) = delete;
  std::span<const std::byte> get() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// Python may call from several threads: a record belongs to one call.
py::object read_next(io::RecordReader& reader) {
  io::Record record;
  if (!reader.next(record)) return py::none();
  return to_bytes(record.bytes);
}

py::bytes encode(const py::buffer& image, int quality, bool rgb) {
  const py::buffer_info info = image.request();
  const bool gray = info.ndim == 2 || (info.ndim == 3 && info.shape[2] == 1);
  MX_CHECK_DTYPE(info.item_type_is_equivalent_to<uint8_t>(),
                 "imencode: pixels of another type given, uint8 expected");
  MX_CHECK_SHAPE(gray || (info.ndim == 3 && info.shape[2] == 3), "imencode: an array with ",
                 info.ndim, " dimensions",
                 info.ndim == 3 ? str(" and ", info.shape[2], " channels") : "",
                 " given, (height, width, 3 or 1) expected");
  for (py::ssize_t axis = info.ndim - 1, stride = 1; axis >= 0; --axis) {
    MX_CHECK(info.strides[axis] == stride || info.shape[axis] == 1,
             "imencode: a contiguous array expected");
    stride *= info.shape[axis];
  }
  io::PixelBlock block;
  block.data = static_cast<const unsigned char*>(info.ptr);
  block.height = static_cast<int>(std::min<py::ssize_t>(info.shape[0], 1 << 20));
  block.width = static_cast<int>(std::min<py::ssize_t>(info.shape[1], 1 << 20));
  block.order = gray ? io::ColorOrder::kGray : rgb ? io::ColorOrder::kRGB : io::ColorOrder::kBGR;
  std::vector<std::byte> bytes;
  {
    const py::gil_scoped_release released;
    bytes = io::encode_jpeg(block, quality);
  }
  return to_bytes(bytes);
}

}  // namespace

void bind_record(py::module_& m) {
  py::class_<io::RecordReader>(m, "RecordReader", "Reads a record file from front to back.")
      .def(py::init<std::string>(), py::arg("path"))
      .def("next", &read_next, "The next record; None at the end.")
      .def("seek", &io::RecordReader::seek, py::arg("offset"))
      .def("tell", &io::RecordReader::tell)
      .def(
          "find_head",
          [](const io::RecordReader& self, int64_t offset) {
            return self.file().find_head(offset);
          },
          py::arg("offset"), "Offset of the first record head at or behind offset.")
      .def_property_readonly("size",
                             [](const io::RecordReader& self) { return self.file().size(); })
      .def_property_readonly("path",
                             [](const io::RecordReader& self) { return self.file().path(); });
  py::class_<io::RecordWriter>(m, "RecordWriter", "Writes a record file.")
      .def(py::init<std::string>(), py::arg("path"))
      .def(
          "write",
          [](io::RecordWriter& self, const py::object& record) {
            const ContiguousBytes bytes(record, "MXRecordIO.write");
            self.write(bytes.get());
          },
          py::arg("record"))
      .def("tell", &io::RecordWriter::tell)
      .def("flush", &io::RecordWriter::flush)
      .def("close", &io::RecordWriter::close);
  m.def(
      "jpeg_is_gray",
      [](const py::object& data, const std::string& name) {
        const ContiguousBytes bytes(data, name.c_str());
        return io::read_jpeg_header(bytes.get(), name).gray;
      },
      py::arg("data"), py::arg("name") = "imdecode", "Whether JPEG bytes have one channel.");
  m.def("encode_jpeg", &encode, py::arg("image"), py::arg("quality") = 95, py::arg("rgb") = false,
        "JPEG bytes of uint8 pixels (height, width, 3 or 1), BGR unless rgb.");
}

}  // namespace mxlite::python
