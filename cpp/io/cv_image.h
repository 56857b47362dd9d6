// Operations on OpenCV images for samples with and without boxes.
#pragma once
#include <opencv2/core.hpp>

#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Returns OpenCV's interpolation number for params.inter_method.
int interpolation(const ImageParams& params, cv::Size from, cv::Size to, Random& random);
// Resizes by params.inter_method, where 10 means a random method. Returns the image itself if it
// already has this size.
cv::Mat resized(const cv::Mat& image, cv::Size size, const ImageParams& params, Random& random);
// Turns a continuous image of Exif orientation 1 to 8 upright. For orientation 1, returns `image`
// itself.
cv::Mat upright(const cv::Mat& image, int orientation);
// Decodes an image. If params require it, also turns the image upright and resizes its short side.
cv::Mat decode_short_side(std::span<const std::byte> bytes, const ImageInfo& info,
                          const ImageParams& params, const std::string& name, Random& random);
// Changes RGB pixels in place.
void shift_hls(cv::Mat& image, int hue, int light, int saturation);

}  // namespace mxlite::io
