#include "cpp/io/cv_image.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>
#include <utility>

#include "cpp/io/image_geometry.h"
#include "cpp/io/orientation.h"

namespace mxlite::io {

int interpolation(const ImageParams& params, cv::Size from, cv::Size to, Random& random) {
  static constexpr int kModes[] = {cv::INTER_NEAREST, cv::INTER_LINEAR, cv::INTER_CUBIC,
                                   cv::INTER_AREA, cv::INTER_LANCZOS4};
  if (params.inter_method == 10) return kModes[uniform_int(random, 0, 4)];
  if (params.inter_method != 9) return kModes[params.inter_method];
  if (to.width > from.width && to.height > from.height) return cv::INTER_CUBIC;
  return to.width < from.width && to.height < from.height ? cv::INTER_AREA : cv::INTER_LINEAR;
}

cv::Mat resized(const cv::Mat& image, cv::Size size, const ImageParams& params, Random& random) {
  if (image.size() == size) return image;
  cv::Mat result;
  cv::resize(image, result, size, 0, 0, interpolation(params, image.size(), size, random));
  return result;
}

cv::Mat upright(const cv::Mat& image, int orientation) {
  if (orientation == 1) return image;
  cv::Mat result(orientation >= 5 ? cv::Size(image.rows, image.cols) : image.size(), image.type());
  orient_pixels(image.data, image.rows, image.cols, image.channels(), orientation, result.data);
  return result;
}

cv::Mat decode_short_side(std::span<const std::byte> bytes, const ImageInfo& info,
                          const ImageParams& params, const std::string& name, Random& random) {
  DecodeOptions options;
  options.name = name;
  options.order = params.channels == 1   ? ColorOrder::kGray
                  : params.channels == 3 ? ColorOrder::kRGB
                                         : ColorOrder::kRGBA;
  const int orientation = used_orientation(bytes, params);
  Extent whole{info.width, info.height};
  if (orientation >= 5) std::swap(whole.width, whole.height);
  const Extent wanted = short_side_size(whole, params);
  if (info.jpeg && !(wanted == whole)) options.denominator = scaled_decode(whole, wanted);
  const int d = options.denominator;
  cv::Mat image(scaled_side(info.height, d), scaled_side(info.width, d), CV_8UC(params.channels));
  decode_image_into(bytes, options, image.data);
  return resized(upright(image, orientation), {wanted.width, wanted.height}, params, random);
}

void shift_hls(cv::Mat& image, int hue, int light, int saturation) {
  const int shifts[3] = {hue, light, saturation};
  static constexpr int kLimits[3] = {180, 255, 255};
  cv::cvtColor(image, image, cv::COLOR_RGB2HLS);
  for (int y = 0; y < image.rows; ++y) {
    auto* row = image.ptr<unsigned char>(y);
    for (int i = 0; i < 3 * image.cols; ++i)
      row[i] = static_cast<unsigned char>(std::clamp(row[i] + shifts[i % 3], 0, kLimits[i % 3]));
  }
  cv::cvtColor(image, image, cv::COLOR_HLS2RGB);
}

}  // namespace mxlite::io
