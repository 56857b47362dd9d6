// Steps on OpenCV's pictures that both kinds of samples share.
#pragma once
#include <opencv2/core.hpp>

#include "cpp/io/image_transform.h"

namespace mxlite::io {

// OpenCV's number for params.inter_method.
int interpolation(const ImageParams& params, cv::Size from, cv::Size to, Random& random);
// With params.inter_method, drawn if that is 10; the picture itself if it has this size.
cv::Mat resized(const cv::Mat& image, cv::Size size, const ImageParams& params, Random& random);
// Decoded and, if params ask for it, resized to the short side.
cv::Mat decode_short_side(std::span<const std::byte> bytes, const ImageInfo& info,
                          const ImageParams& params, const std::string& name, Random& random);
// RGB, in place.
void shift_hls(cv::Mat& image, int hue, int light, int saturation);

}  // namespace mxlite::io
