// RecordIO files and image encoding for mxlite.recordio and mxlite.tools.
#include <pybind11/stl.h>

#include "cpp/io/encode.h"
#include "cpp/io/image_packer.h"
#include "cpp/io/record_file.h"
#include "cpp/io/record_writer.h"
#include "cpp/python/array_handles.h"
#include "cpp/python/bind.h"
#include "cpp/python/contiguous_bytes.h"
#include "cpp/python/gil.h"
#include "cpp/python/remote_file.h"

namespace mxlite::python {
namespace {

py::bytes to_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Several Python threads may call this function, so each call uses a separate Record.
py::object read_next(io::RecordReader& reader) {
  io::Record record;
  if (!reader.next(record)) return py::none();
  return to_bytes(record.bytes);
}

py::bytes encode(const py::buffer& image, bool png, int quality, bool rgb) {
  const py::buffer_info info = image.request();
  const py::ssize_t channels = info.ndim == 2 ? 1 : info.ndim == 3 ? info.shape[2] : 0;
  MX_CHECK_DTYPE(info.item_type_is_equivalent_to<uint8_t>(),
                 "imencode: pixels must be of dtype uint8");
  MX_CHECK_SHAPE(channels == 1 || channels == 3 || channels == 4,
                 "imencode: the array must have shape (height, width, 1, 3 or 4), got ", info.ndim,
                 " dimensions", info.ndim == 3 ? str(" and ", info.shape[2], " channels") : "");
  for (py::ssize_t axis = info.ndim - 1, stride = 1; axis >= 0; --axis) {
    MX_CHECK(info.strides[axis] == stride || info.shape[axis] == 1,
             "imencode: the array must be contiguous");
    stride *= info.shape[axis];
  }
  constexpr py::ssize_t kLongestSide = 1 << 20;
  MX_CHECK_SHAPE(info.shape[0] <= kLongestSide && info.shape[1] <= kLongestSide,
                 "imencode: each side of the image must be at most ", kLongestSide, " pixels, got ",
                 info.shape[0], " x ", info.shape[1]);
  io::PixelBlock block;
  block.data = static_cast<const unsigned char*>(info.ptr);
  block.height = static_cast<int>(info.shape[0]);
  block.width = static_cast<int>(info.shape[1]);
  block.order = channels == 1   ? io::ColorOrder::kGray
                : channels == 3 ? (rgb ? io::ColorOrder::kRGB : io::ColorOrder::kBGR)
                                : (rgb ? io::ColorOrder::kRGBA : io::ColorOrder::kBGRA);
  const auto format = png ? io::ImageFormat::kPng : io::ImageFormat::kJpeg;
  std::vector<std::byte> bytes;
  {
    const GilRelease released;
    bytes = io::encode_image(block, format, quality);
  }
  return to_bytes(bytes);
}

class Packer {
 public:
  Packer(bool pass_through, int color, bool center_crop, int resize, bool png, int quality,
         int threads)
      : packer_({pass_through, color, center_crop, resize,
                 png ? io::ImageFormat::kPng : io::ImageFormat::kJpeg, quality},
                threads) {}

  void add(const std::vector<std::pair<py::bytes, py::bytes>>& items) {
    std::vector<io::PackItem> added;
    for (const auto& [path, header] : items) {
      const std::string_view view = header;
      const auto* begin = reinterpret_cast<const std::byte*>(view.data());
      added.push_back({std::string(path), {begin, begin + view.size()}});
    }
    packer_.add(std::move(added));
  }

  std::vector<std::pair<int64_t, std::string>> write(io::RecordWriter& writer, int64_t count) {
    std::vector<std::pair<int64_t, std::string>> results;
    const GilRelease released;
    for (io::PackedItem& item : packer_.write(writer, count))
      results.emplace_back(item.offset, std::move(item.error));
    return results;
  }

 private:
  io::ImagePacker packer_;
};

}  // namespace

void bind_record(py::module_& m) {
  io::set_remote_opener(open_remote);
  py::class_<io::RecordReader>(m, "RecordReader", "Reads a record file from front to back.")
      .def(py::init<std::string>(), py::arg("path"))
      .def("next", &read_next, "The next record; None at the end.")
      .def(
          "skip",
          [](io::RecordReader& self) {
            io::Record record;
            return self.next(record);
          },
          "Check the next record and move past it; False at the end.")
      .def("seek", &io::RecordReader::seek, py::arg("offset"))
      .def("tell", &io::RecordReader::tell)
      .def_property_readonly(
          "_as_parameter_", [](const io::RecordReader& self) { return handle_to_python(&self); },
          "Address for the functions of mx.base._LIB; ctypes reads this attribute.")
      .def_property_readonly("size",
                             [](const io::RecordReader& self) { return self.file().size(); })
      .def_property_readonly("path",
                             [](const io::RecordReader& self) { return self.file().path(); });
  py::class_<io::RecordWriter>(m, "RecordWriter", "Writes a record file.")
      .def(py::init([](const std::string& path, int64_t keep) {
             return keep < 0 ? std::make_unique<io::RecordWriter>(path)
                             : std::make_unique<io::RecordWriter>(path, keep);
           }),
           py::arg("path"), py::arg("keep") = -1,
           "keep: continue after this many bytes of the file; -1 makes a new file.")
      .def(
          "write",
          [](io::RecordWriter& self, const py::object& record) {
            const ContiguousBytes bytes(record, "MXRecordIO.write");
            self.write(bytes.get());
          },
          py::arg("record"))
      .def("tell", &io::RecordWriter::tell)
      .def("flush", &io::RecordWriter::flush)
      .def("sync", &io::RecordWriter::sync, py::call_guard<GilRelease>())
      .def("close", &io::RecordWriter::close);
  py::class_<Packer>(m, "ImagePacker", "Threads that make records of image files, in order.")
      .def(py::init<bool, int, bool, int, bool, int, int>(), py::kw_only(), py::arg("pass_through"),
           py::arg("color"), py::arg("center_crop"), py::arg("resize"), py::arg("png"),
           py::arg("quality"), py::arg("threads"))
      .def("add", &Packer::add, py::arg("items"), "Pairs (path, header); the threads begin.")
      .def("write", &Packer::write, py::arg("writer"), py::arg("count"),
           "Writes the next items; pairs (offset, error), the offset -1 where there is an error.");
  m.def("encode_image", &encode, py::arg("image"), py::arg("png") = false, py::arg("quality") = 95,
        py::arg("rgb") = false,
        "JPEG or PNG bytes of uint8 pixels (height, width, 1, 3 or 4), BGR unless rgb.");
}

}  // namespace mxlite::python
