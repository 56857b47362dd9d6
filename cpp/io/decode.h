// Decodes images: JPEG with libjpeg-turbo and PNG with libpng.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::io {

enum class ColorOrder : uint8_t { kGray, kRGB, kBGR, kRGBA, kBGRA };

inline int num_channels(ColorOrder order) {
  if (order == ColorOrder::kGray) return 1;
  return order == ColorOrder::kRGB || order == ColorOrder::kBGR ? 3 : 4;
}

struct ImageInfo {
  int width = 0, height = 0;
  int channels = 3;  // channels of the file: 1 (gray), 3 (colors) or 4 (colors and alpha)
  bool jpeg = true;
};

struct DecodeOptions {
  ColorOrder order = ColorOrder::kRGB;  // alpha is 255 if the file has no alpha
  // The image is decoded at 1/denominator of its size. This is faster if the caller shrinks the
  // image anyway. The value must be 1, 2, 4 or 8 for JPEG, and 1 for PNG.
  int denominator = 1;
  std::string name = "imdecode";  // file or function named in errors
};

struct Region {
  int x = 0, y = 0, width = 0, height = 0;
};

// A part of a decoded image. `data` points to pixel (area.x, area.y), and rows are `stride` bytes
// apart. `memory` is reused from image to image and is at least 16 bytes longer than the pixels.
struct Window {
  Region area;
  const unsigned char* data = nullptr;
  int64_t stride = 0;
  std::vector<unsigned char> memory;
};

// Throws a record error that begins with `name` if an image has more pixels than
// MXLITE_MAX_IMAGE_PIXELS.
void check_pixel_count(int64_t height, int64_t width, const std::string& name);

bool is_jpeg(std::span<const std::byte> bytes);
bool is_png(std::span<const std::byte> bytes);
// Reads the header. Throws a record error that begins with `name` if the bytes are not an image.
ImageInfo read_image_header(std::span<const std::byte> bytes, const std::string& name);
// Returns the Exif orientation from 1 to 8, or 1 if the file has no orientation. Decoding does not
// apply the orientation.
int exif_orientation(std::span<const std::byte> bytes);

// Returns a uint8 array (height, width, channels). Throws a record error if the data are corrupt or
// truncated.
NDArrayRef decode_image(std::span<const std::byte> bytes, const DecodeOptions& options);
// Decodes into the caller's memory, which must be large enough for all pixels.
void decode_image_into(std::span<const std::byte> bytes, const DecodeOptions& options,
                       unsigned char* pixels);
// Decodes at least the region `needed`, which is given in pixels after scaling. Produces the same
// pixels as decode_image. Also checks the rest of the file for damage.
void decode_window(std::span<const std::byte> bytes, const DecodeOptions& options,
                   const Region& needed, Window& window);

inline int scaled_side(int side, int denominator) { return (side + denominator - 1) / denominator; }

}  // namespace mxlite::io
