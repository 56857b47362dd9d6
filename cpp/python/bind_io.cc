// Image decoding and resizing for mxlite.image.
#include "cpp/base/principal_colors.h"
#include "cpp/io/decode.h"
#include "cpp/io/orientation.h"
#include "cpp/io/resize.h"
#include "cpp/python/bind.h"
#include "cpp/python/contiguous_bytes.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
void bind_io(py::module_& m) {
  m.def(
      "image_info",
      [](const py::object& data, const std::string& name) {
        const ContiguousBytes bytes(data, name);
        const io::ImageInfo header = io::read_image_header(bytes.get(), name);
        return py::make_tuple(header.height, header.width, header.channels);
      },
      py::arg("data"), py::arg("name") = "imdecode",
      "(height, width, channels) from the header of a JPEG or PNG image.");
  m.def(
      "decode_image",
      [](const py::object& data, int channels, bool to_rgb, int denominator, bool upright,
         const std::string& name) {
        const ContiguousBytes bytes(data, name);
        MX_CHECK(channels == 1 || channels == 3 || channels == 4, name,
                 ": channels must be 1, 3 or 4, got ", channels);
        io::DecodeOptions options;
        options.order = channels == 1   ? io::ColorOrder::kGray
                        : channels == 3 ? (to_rgb ? io::ColorOrder::kRGB : io::ColorOrder::kBGR)
                                        : (to_rgb ? io::ColorOrder::kRGBA : io::ColorOrder::kBGRA);
        options.denominator = denominator;
        options.name = name;
        const GilRelease released;
        const NDArrayRef image = io::decode_image(bytes.get(), options);
        return upright ? io::orient(image, io::exif_orientation(bytes.get())) : image;
      },
      py::arg("data"), py::arg("channels") = 3, py::arg("to_rgb") = true,
      py::arg("denominator") = 1, py::arg("upright") = false, py::arg("name") = "imdecode",
      "uint8 array (height, width, channels) from the bytes of a JPEG or PNG image; upright: "
      "turned "
      "as its Exif tag says.");
  m.def(
      "resize_image",
      [](const NDArrayRef& image, int64_t width, int64_t height, int interpolation) {
        const GilRelease released;
        return io::resize_image(image, width, height, interpolation);
      },
      py::arg("image"), py::arg("width"), py::arg("height"), py::arg("interpolation") = 1,
      "The image (height, width, channels) in another size.");
  m.def(
      "principal_colors",
      [] {
        const PrincipalColors<double> colors;
        const auto numbers = [](const double(&row)[3]) {
          return py::make_tuple(row[0], row[1], row[2]);
        };
        const auto& rows = colors.directions;
        return py::make_tuple(numbers(colors.deviations),
                              py::make_tuple(numbers(rows[0]), numbers(rows[1]), numbers(rows[2])));
      },
      "(deviations, directions) of ImageNet's colors: three numbers, and three for each of red, "
      "green and blue.");
}

}  // namespace mxlite::python
