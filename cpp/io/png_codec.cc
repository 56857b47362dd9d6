#include "cpp/io/png_codec.h"

#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstring>

namespace mxlite::io {
namespace {

struct Source {
  std::span<const std::byte> left;
};

struct ErrorTrap {
  std::jmp_buf exit;
  char message[200] = "";
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto* trap = static_cast<ErrorTrap*>(png_get_error_ptr(png));
  std::strncpy(trap->message, message, sizeof(trap->message) - 1);
  std::longjmp(trap->exit, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep output, size_t size) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->left.size() < size) png_error(png, "the data are truncated");
  std::memcpy(output, source->left.data(), size);
  source->left = source->left.subspan(size);
}

void write_bytes(png_structp png, png_bytep data, size_t size) {
  auto* output = static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  bool failed = false;
  try {
    output->insert(output->end(), begin, begin + size);
  } catch (const std::bad_alloc&) {  // bad_alloc must not pass through libpng
    failed = true;
  }
  if (failed) png_error(png, "out of memory");
}

void flush_nothing(png_structp) {}

struct Reader {
  ErrorTrap trap;
  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(std::span<const std::byte> bytes) : source{bytes} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &trap, leave, ignore_warning);
    MX_CHECK_KIND(png, ErrorKind::kOutOfMemory, "imdecode: libpng could not be set up");
    info = png_create_info_struct(png);
    png_set_read_fn(png, &source, read_bytes);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader& operator=(Reader&&) = delete;  // neither copied nor moved
};

// longjmp skips destructors, so no object with a destructor may be created after setjmp.
bool read_header(Reader& reader) {
  if (setjmp(reader.trap.exit) != 0) return false;
  png_read_info(reader.png, reader.info);
  return true;
}

bool read_pixels(Reader& reader, ColorOrder order, png_bytep* rows) {
  if (setjmp(reader.trap.exit) != 0) return false;
  png_structp png = reader.png;
  const int type = png_get_color_type(png, reader.info);
  png_set_strip_16(png);
  png_set_packing(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  const int channels = num_channels(order);
  if (channels == 4) {
    if (png_get_valid(png, reader.info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
  } else {
    png_set_strip_alpha(png);
  }
  if (channels == 1) {
    if (type & PNG_COLOR_MASK_COLOR) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  } else if (!(type & PNG_COLOR_MASK_COLOR)) {
    png_set_gray_to_rgb(png);
  }
  if (order == ColorOrder::kBGR || order == ColorOrder::kBGRA) png_set_bgr(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  const size_t expected =
      static_cast<size_t>(png_get_image_width(png, reader.info)) * static_cast<size_t>(channels);
  if (png_get_rowbytes(png, reader.info) != expected)
    png_error(png, "the format of its pixels is not supported");
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

[[noreturn]] void fail_decode(const std::string& name, const Reader& reader, size_t bytes) {
  fail(ErrorKind::kRecord, name, ": ", bytes,
       " bytes must be a readable PNG image: ", std::string(reader.trap.message));
}

ImageInfo info_of(const Reader& reader) {
  ImageInfo result;
  result.jpeg = false;
  result.width = static_cast<int>(png_get_image_width(reader.png, reader.info));
  result.height = static_cast<int>(png_get_image_height(reader.png, reader.info));
  const int type = png_get_color_type(reader.png, reader.info);
  const bool alpha =
      (type & PNG_COLOR_MASK_ALPHA) || png_get_valid(reader.png, reader.info, PNG_INFO_tRNS);
  if (type == PNG_COLOR_TYPE_GRAY) {
    result.channels = 1;
  } else {
    result.channels = alpha ? 4 : 3;
  }
  return result;
}

void open(Reader& reader, const std::string& name) {
  const size_t bytes = reader.source.left.size();
  if (!read_header(reader)) fail_decode(name, reader, bytes);
  check_pixel_count(png_get_image_height(reader.png, reader.info),
                    png_get_image_width(reader.png, reader.info), name);
}

struct Writer {
  ErrorTrap trap;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<std::byte> output;

  Writer() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &trap, leave, ignore_warning);
    MX_CHECK_KIND(png, ErrorKind::kOutOfMemory, "imencode: libpng could not be set up");
    info = png_create_info_struct(png);
    png_set_write_fn(png, &output, write_bytes, flush_nothing);
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer& operator=(Writer&&) = delete;  // neither copied nor moved
};

bool write_pixels(Writer& writer, const PixelBlock& image, int level) {
  if (setjmp(writer.trap.exit) != 0) return false;
  const int channels = num_channels(image.order);
  const int type = channels == 1   ? PNG_COLOR_TYPE_GRAY
                   : channels == 3 ? PNG_COLOR_TYPE_RGB
                                   : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_compression_level(writer.png, level);
  png_set_compression_strategy(writer.png, Z_RLE);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), 8, type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  if (image.order == ColorOrder::kBGR || image.order == ColorOrder::kBGRA) png_set_bgr(writer.png);
  for (int y = 0; y < image.height; ++y)
    png_write_row(writer.png, image.data + static_cast<int64_t>(y) * image.width * channels);
  png_write_end(writer.png, writer.info);
  return true;
}

}  // namespace

ImageInfo read_png_header(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader(bytes);
  open(reader, name);
  return info_of(reader);
}

void decode_png(std::span<const std::byte> bytes, const DecodeOptions& options,
                unsigned char* pixels) {
  Reader reader(bytes);
  open(reader, options.name);
  const ImageInfo info = info_of(reader);
  std::vector<png_bytep> rows(static_cast<size_t>(info.height));
  const int64_t stride = static_cast<int64_t>(info.width) * num_channels(options.order);
  for (int y = 0; y < info.height; ++y) rows[static_cast<size_t>(y)] = pixels + y * stride;
  if (!read_pixels(reader, options.order, rows.data()))
    fail_decode(options.name, reader, bytes.size());
}

std::vector<std::byte> encode_png(const PixelBlock& image, int level) {
  MX_CHECK(level >= 0 && level <= 9, "imencode: the PNG level must be in [0, 9], got ", level);
  Writer writer;
  MX_CHECK_KIND(write_pixels(writer, image, level), ErrorKind::kError,
                "imencode: ", std::string(writer.trap.message));
  return std::move(writer.output);
}

}  // namespace mxlite::io
