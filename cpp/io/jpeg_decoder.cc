#include "cpp/io/jpeg_decoder.h"

#include <algorithm>

#include "cpp/io/jpeg_errors.h"

namespace mxlite::io {
namespace {

// Level -1 is a warning. Most warnings mean lost pixels and are treated as errors. The warnings
// below mean superfluous bytes, which are common and harmless.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_TOO_MUCH_DATA:
    case JWRN_BOGUS_PROGRESSION:
      return;
    default:
      leave_jpeg(info);
  }
}

// Each scan of a progressive file visits all blocks of the image. Encoders write about 10 scans. A
// malicious file with thousands of empty scans would keep a thread busy for minutes.
constexpr int kMostScans = 100;

void check_scans(j_common_ptr info) {
  const int scans = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
  if (scans <= kMostScans) return;
  auto* trap = reinterpret_cast<JpegErrorTrap*>(info->err);
  std::snprintf(trap->message, sizeof trap->message, "more than %d scans", kMostScans);
  std::longjmp(trap->exit, 1);
}

// Each image uses a separate object, because a reused decompressor would keep the previous image's
// tables.
struct Decompressor {
  jpeg_decompress_struct info{};
  JpegErrorTrap trap{};
  jpeg_progress_mgr progress{};

  Decompressor() {
    info.err = jpeg_std_error(&trap.manager);
    trap.manager.error_exit = leave_jpeg;
    trap.manager.emit_message = on_message;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info); }
  Decompressor& operator=(Decompressor&&) = delete;  // neither copied nor moved
};

[[noreturn]] void fail_decode(const std::string& name, const Decompressor& jpeg, size_t bytes) {
  fail(ErrorKind::kRecord, name, ": ", bytes,
       " bytes must be a readable JPEG image: ", std::string(jpeg.trap.message));
}

// longjmp skips destructors, so these functions create no object with a destructor after setjmp.
bool read_header(Decompressor& jpeg, std::span<const std::byte> bytes) {
  if (setjmp(jpeg.trap.exit) != 0) return false;
  jpeg_create_decompress(&jpeg.info);
  jpeg.progress.progress_monitor = check_scans;
  jpeg.info.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));  // NOLINT(google-runtime-int)
  jpeg_read_header(&jpeg.info, TRUE);
  return true;
}

bool has_four_inks(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

J_COLOR_SPACE color_space(const jpeg_decompress_struct& info, ColorOrder order) {
  if (has_four_inks(info)) return JCS_CMYK;
  switch (order) {
    case ColorOrder::kGray:
      return JCS_GRAYSCALE;
    case ColorOrder::kRGB:
      return JCS_RGB;
    case ColorOrder::kBGR:
      return JCS_EXT_BGR;
    case ColorOrder::kRGBA:
      return JCS_EXT_RGBA;
    case ColorOrder::kBGRA:
      return JCS_EXT_BGRA;
  }
  return JCS_RGB;
}

// Converts CMYK pixels with OpenCV's arithmetic. The pixels are inverted as in Adobe's files, where
// 255 means no ink.
void convert_inks(const unsigned char* inks, int64_t pixels, ColorOrder order,
                  unsigned char* output) {
  const int channels = num_channels(order);
  const bool red_first = order == ColorOrder::kRGB || order == ColorOrder::kRGBA;
  for (int64_t i = 0; i < pixels; ++i, inks += 4, output += channels) {
    int color[3];
    for (int c = 0; c < 3; ++c) color[c] = inks[3] - ((255 - inks[c]) * inks[3] >> 8);
    if (order == ColorOrder::kGray) {
      *output = static_cast<unsigned char>(
          (color[0] * 4899 + color[1] * 9617 + color[2] * 1868 + 8192) >> 14);
      continue;
    }
    for (int c = 0; c < 3; ++c)
      output[c] = static_cast<unsigned char>(color[red_first ? c : 2 - c]);
    if (channels == 4) output[3] = 255;
  }
}

// The region to decode: columns [x, x + width) of rows [y, y + height). libjpeg may widen the range
// of columns.
struct Rows {
  JDIMENSION x = 0, width = 0, y = 0, height = 0;
  unsigned char* pixels = nullptr;
  int64_t stride = 0;
};

bool start(Decompressor& jpeg, const DecodeOptions& options, bool crop, Rows& rows) {
  if (setjmp(jpeg.trap.exit) != 0) return false;
  jpeg_decompress_struct& info = jpeg.info;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(options.denominator);
  info.out_color_space = color_space(info, options.order);
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  if (crop) jpeg_crop_scanline(&info, &rows.x, &rows.width);
  return true;
}

bool read_rows(Decompressor& jpeg, const Rows& rows) {
  if (setjmp(jpeg.trap.exit) != 0) return false;
  jpeg_decompress_struct& info = jpeg.info;
  if (rows.y > 0) jpeg_skip_scanlines(&info, rows.y);
  constexpr JDIMENSION kBlock = 16;
  for (JDIMENSION done = 0; done < rows.height;) {
    JSAMPROW lines[kBlock];
    const JDIMENSION count = std::min(kBlock, rows.height - done);
    for (JDIMENSION i = 0; i < count; ++i)
      lines[i] = rows.pixels + static_cast<int64_t>(done + i) * rows.stride;
    done += jpeg_read_scanlines(&info, lines, count);
  }
  if (info.output_scanline < info.output_height)
    jpeg_skip_scanlines(&info, info.output_height - info.output_scanline);
  jpeg_finish_decompress(&info);
  return true;
}

void open(Decompressor& jpeg, std::span<const std::byte> bytes, const std::string& name) {
  if (!read_header(jpeg, bytes)) fail_decode(name, jpeg, bytes.size());
  check_pixel_count(jpeg.info.image_height, jpeg.info.image_width, name);
}

}  // namespace

ImageInfo read_jpeg_header(std::span<const std::byte> bytes, const std::string& name) {
  Decompressor jpeg;
  open(jpeg, bytes, name);
  ImageInfo result;
  result.width = static_cast<int>(jpeg.info.image_width);
  result.height = static_cast<int>(jpeg.info.image_height);
  result.channels = jpeg.info.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3;
  return result;
}

void decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                 unsigned char* pixels) {
  Decompressor jpeg;
  open(jpeg, bytes, options.name);
  Rows rows;
  if (!start(jpeg, options, /*crop=*/false, rows)) fail_decode(options.name, jpeg, bytes.size());
  rows.height = jpeg.info.output_height;
  const int64_t count = static_cast<int64_t>(rows.height) * jpeg.info.output_width;
  rows.stride = static_cast<int64_t>(jpeg.info.output_width) * jpeg.info.out_color_components;
  std::vector<unsigned char> inks;
  rows.pixels = pixels;
  if (has_four_inks(jpeg.info)) {
    inks.resize(static_cast<size_t>(rows.stride * rows.height));
    rows.pixels = inks.data();
  }
  if (!read_rows(jpeg, rows)) fail_decode(options.name, jpeg, bytes.size());
  if (!inks.empty()) convert_inks(inks.data(), count, options.order, pixels);
}

void decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                 const Region& needed, Window& window) {
  Decompressor jpeg;
  open(jpeg, bytes, options.name);
  const auto full_width = static_cast<JDIMENSION>(
      scaled_side(static_cast<int>(jpeg.info.image_width), options.denominator));
  const auto full_height = static_cast<JDIMENSION>(
      scaled_side(static_cast<int>(jpeg.info.image_height), options.denominator));
  // libjpeg interpolates colors between neighbouring pixels, so pixels at the region's border would
  // differ from a full decode. Therefore two more pixels are decoded on each side.
  constexpr int kMargin = 2;
  Rows rows;
  rows.x = static_cast<JDIMENSION>(std::max(needed.x - kMargin, 0));
  rows.width =
      std::min(full_width, static_cast<JDIMENSION>(needed.x + needed.width + kMargin)) - rows.x;
  rows.y = static_cast<JDIMENSION>(std::max(needed.y - kMargin, 0));
  rows.height =
      std::min(full_height, static_cast<JDIMENSION>(needed.y + needed.height + kMargin)) - rows.y;
  if (!start(jpeg, options, /*crop=*/rows.width < full_width, rows))
    fail_decode(options.name, jpeg, bytes.size());
  rows.stride = static_cast<int64_t>(rows.width) * jpeg.info.out_color_components;
  const int channels = num_channels(options.order);
  const auto size = static_cast<size_t>(rows.stride * rows.height + 16);
  if (window.memory.size() < size) window.memory.resize(size);
  rows.pixels = window.memory.data();
  if (!read_rows(jpeg, rows)) fail_decode(options.name, jpeg, bytes.size());
  if (has_four_inks(jpeg.info)) {
    std::vector<unsigned char> converted(
        static_cast<size_t>(rows.width) * rows.height * static_cast<size_t>(channels) + 16);
    convert_inks(rows.pixels, static_cast<int64_t>(rows.width) * rows.height, options.order,
                 converted.data());
    window.memory = std::move(converted);
  }
  window.data = window.memory.data();
  window.stride = static_cast<int64_t>(rows.width) * channels;
  window.area = {static_cast<int>(rows.x), static_cast<int>(rows.y), static_cast<int>(rows.width),
                 static_cast<int>(rows.height)};
}

}  // namespace mxlite::io
