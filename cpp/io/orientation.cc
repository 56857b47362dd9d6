#include "cpp/io/orientation.h"

#include <cstring>

namespace mxlite::io {

void orient_pixels(const unsigned char* pixels, int height, int width, int channels,
                   int orientation, unsigned char* output) {
  const bool transposed = orientation >= 5;
  // Whether the stored image is mirrored horizontally, seen in the directions of the output.
  const bool mirrored =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool upside_down =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int rows = transposed ? width : height, columns = transposed ? height : width;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const int y = transposed ? column : row, x = transposed ? row : column;
      const int64_t from = static_cast<int64_t>(upside_down ? height - 1 - y : y) * width +
                           (mirrored ? width - 1 - x : x);
      const int64_t to = static_cast<int64_t>(row) * columns + column;
      std::memcpy(output + to * channels, pixels + from * channels, static_cast<size_t>(channels));
    }
  }
}

NDArrayRef orient(const NDArrayRef& image, int orientation) {
  if (orientation == 1) return image;
  const Shape& shape = image->shape();
  const bool transposed = orientation >= 5;
  NDArrayRef result = NDArray::empty(
      {{transposed ? shape[1] : shape[0], transposed ? shape[0] : shape[1], shape[2]},
       DType::kUInt8},
      image->device());
  orient_pixels(static_cast<const unsigned char*>(image->data()), static_cast<int>(shape[0]),
                static_cast<int>(shape[1]), static_cast<int>(shape[2]), orientation,
                static_cast<unsigned char*>(result->data()));
  return result;
}

}  // namespace mxlite::io
