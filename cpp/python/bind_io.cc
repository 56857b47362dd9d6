// Image decoding and resizing for mxlite.image.
#include "cpp/io/decode.h"
#include "cpp/io/resize.h"
#include "cpp/python/bind.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

std::span<const std::byte> bytes_of(const py::buffer_info& info) {
  return {static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize)};
}

}  // namespace

void bind_io(py::module_& m) {
  m.def(
      "jpeg_size",
      [](const py::buffer& data, const std::string& name) {
        const py::buffer_info info = data.request();
        const io::JpegInfo header = io::read_jpeg_header(bytes_of(info), name);
        return py::make_tuple(header.height, header.width);
      },
      py::arg("data"), py::arg("name") = "imdecode", "(height, width) of JPEG bytes.");
  m.def(
      "decode_jpeg",
      [](const py::buffer& data, bool color, bool to_rgb, int denominator,
         const std::string& name) {
        const py::buffer_info info = data.request();
        io::DecodeOptions options;
        options.order = !color   ? io::ColorOrder::kGray
                        : to_rgb ? io::ColorOrder::kRGB
                                 : io::ColorOrder::kBGR;
        options.denominator = denominator;
        options.name = name;
        const py::gil_scoped_release released;
        return io::decode_jpeg(bytes_of(info), options);
      },
      py::arg("data"), py::arg("color") = true, py::arg("to_rgb") = true,
      py::arg("denominator") = 1, py::arg("name") = "imdecode",
      "uint8 array (height, width, channels) from JPEG bytes.");
  m.def(
      "resize_image",
      [](const NDArrayRef& image, int64_t width, int64_t height, int interpolation) {
        const py::gil_scoped_release released;
        return io::resize_image(image, width, height, interpolation);
      },
      py::arg("image"), py::arg("width"), py::arg("height"), py::arg("interpolation") = 1,
      "The image (height, width, channels) in another size.");
}

}  // namespace mxlite::python
