#include "cpp/io/resize.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace mxlite::io {
namespace {

int mat_type(const NDArray& image) {
  const auto channels = static_cast<int>(image.shape()[2]);
  return CV_MAKETYPE(image.dtype() == DType::kUInt8 ? CV_8U : CV_32F, channels);
}

cv::Mat as_mat(const NDArray& image) {
  return {static_cast<int>(image.shape()[0]), static_cast<int>(image.shape()[1]), mat_type(image),
          image.data()};
}

}  // namespace

NDArrayRef resize_image(const NDArrayRef& image, int64_t width, int64_t height, int interpolation) {
  const Shape& shape = image->shape();
  MX_CHECK_SHAPE(
      shape.ndim() == 3 && shape[0] > 0 && shape[1] > 0 && shape[2] >= 1 && shape[2] <= CV_CN_MAX,
      "imresize: image must have shape (height, width, channels), got ", shape);
  MX_CHECK_DTYPE(image->dtype() == DType::kUInt8 || image->dtype() == DType::kFloat32,
                 "imresize: image must be of dtype uint8 or float32, got ", image->dtype());
  const int64_t limit = std::numeric_limits<int16_t>::max();
  MX_CHECK(width > 0 && height > 0 && width <= limit && height <= limit,
           "imresize: width and height must be in [1, ", limit, "], got ", width, " x ", height);
  MX_CHECK(interpolation >= 0 && interpolation <= 4,
           "imresize: interp must be 0 (nearest) to 4 (Lanczos), got ", interpolation);
  MX_CHECK_SHAPE(std::max(shape[0], shape[1]) <= std::numeric_limits<int>::max(),
                 "imresize: the image's sides must be below 2^31, got shape ", shape);
  MX_CHECK(image->contiguous(), "imresize: the image must be contiguous");
  // OpenCV's own threads would compete with the operators' threads, so OpenCV uses one thread.
  static std::once_flag once;
  std::call_once(once, [] { cv::setNumThreads(1); });
  image->wait_to_read();
  NDArrayRef result = NDArray::empty({{height, width, shape[2]}, image->dtype()}, image->device());
  cv::Mat target = as_mat(*result);
  static constexpr int kModes[] = {cv::INTER_NEAREST, cv::INTER_LINEAR, cv::INTER_CUBIC,
                                   cv::INTER_AREA, cv::INTER_LANCZOS4};
  try {
    cv::resize(as_mat(*image), target, target.size(), 0, 0, kModes[interpolation]);
  } catch (const cv::Exception& e) {
    fail(ErrorKind::kValue, "imresize: ", e.what());
  }
  return result;
}

}  // namespace mxlite::io
