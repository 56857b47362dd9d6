#include "cpp/io/image_transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "cpp/base/principal_colors.h"
#include "cpp/io/cv_image.h"
#include "cpp/io/direct_transform.h"
#include "cpp/io/image_geometry.h"
#include "cpp/io/sample_writer.h"

namespace mxlite::io {
namespace {

cv::Size as_size(Extent extent) { return {extent.width, extent.height}; }
Extent extent_of(const cv::Mat& image) { return {image.cols, image.rows}; }
cv::Rect as_rect(const Region& r) { return {r.x, r.y, r.width, r.height}; }

cv::Mat warped(const cv::Mat& image, const ImageParams& p, Random& random) {
  const float shear = uniform(random, -p.max_shear_ratio, p.max_shear_ratio);
  int angle = uniform_int(random, -p.max_rotate_angle, p.max_rotate_angle);
  if (p.rotate > 0) angle = p.rotate;
  if (p.rotate_list.ndim() > 0)
    angle = static_cast<int>(p.rotate_list[uniform_int(random, 0, p.rotate_list.ndim() - 1)]);
  const float radians = static_cast<float>(angle) * std::numbers::pi_v<float> / 180;
  const float c = std::cos(radians), s = std::sin(radians);
  const float scale = uniform(random, p.min_random_scale, p.max_random_scale);
  const float ratio =
      p.random_resized_crop ? 1 : 1 + uniform(random, -p.max_aspect_ratio, p.max_aspect_ratio);
  const float rows_scale = 2 * scale / (1 + ratio), cols_scale = ratio * rows_scale;
  const auto side = [&](int length) {
    return std::clamp(scale * static_cast<float>(length), p.min_img_size, p.max_img_size);
  };
  const float width = side(image.cols), height = side(image.rows);
  cv::Matx23f matrix(rows_scale * c - shear * s * cols_scale,
                     rows_scale * s + shear * c * cols_scale, 0, -s * cols_scale, c * cols_scale,
                     0);
  const float x = static_cast<float>(image.cols) / 2, y = static_cast<float>(image.rows) / 2;
  for (int row = 0; row < 2; ++row)
    matrix(row, 2) = (row == 0 ? width : height) / 2 - (matrix(row, 0) * x + matrix(row, 1) * y);
  cv::Mat result;
  const cv::Size size(std::max(1, static_cast<int>(width)), std::max(1, static_cast<int>(height)));
  cv::warpAffine(image, result, matrix, size, interpolation(p, image.size(), size, random),
                 cv::BORDER_CONSTANT, cv::Scalar::all(p.fill_value));
  return result;
}

cv::Mat cropped(cv::Mat image, const ImageParams& p, Random& random) {
  const cv::Size target(p.width, p.height);
  const Region rectangle = drawn_rectangle(extent_of(image), p, random);
  if (rectangle.width > 0) return resized(image(as_rect(rectangle)), target, p, random);
  if (image.rows < p.height || image.cols < p.width)
    image = resized(image, as_size(enlarged_size(extent_of(image), p)), p, random);
  return image(as_rect(placed(extent_of(image), {p.width, p.height}, p.rand_crop, random)));
}

void jitter(cv::Mat& image, const ImageParams& p, Random& random) {
  std::array<int, 3> order = {0, 1, 2};
  std::shuffle(order.begin(), order.end(), random);
  for (const int which : order) {
    const float range = which == 0 ? p.brightness : which == 1 ? p.contrast : p.saturation;
    if (range <= 0) continue;
    const float factor = 1 + uniform(random, -range, range);
    if (which == 0) {
      image.convertTo(image, -1, factor);
      continue;
    }
    cv::Mat gray = image;
    if (image.channels() == 3) cv::cvtColor(image, gray, cv::COLOR_RGB2GRAY);
    if (which == 1) {
      image.convertTo(image, -1, factor, (1 - factor) * cv::mean(gray)[0]);
    } else if (image.channels() == 3) {
      cv::cvtColor(gray, gray, cv::COLOR_GRAY2RGB);
      cv::addWeighted(image, factor, gray, 1 - factor, 0, image);
    }
  }
}

void add_pca_noise(cv::Mat& image, float sigma, Random& random) {
  static constexpr PrincipalColors<float> kColors;
  std::normal_distribution<float> normal(0, sigma);
  float alpha[3];
  for (float& a : alpha) a = normal(random);
  cv::Scalar shift;
  for (int c = 0; c < 3; ++c)
    for (int k = 0; k < 3; ++k) shift[c] += static_cast<double>(kColors.part(c, k) * alpha[k]);
  cv::add(image, shift, image);
}

}  // namespace

void check_image_params(const ImageParams& p) {
  MX_CHECK(p.channels == 1 || p.channels == 3 || p.channels == 4,
           "ImageRecordIter: data_shape must have 1, 3 or 4 channels, got (", p.channels, ", ",
           p.height, ", ", p.width, ")");
  MX_CHECK(p.height > 0 && p.width > 0,
           "ImageRecordIter: data_shape must have positive sizes, got (", p.channels, ", ",
           p.height, ", ", p.width, ")");
  MX_CHECK(
      (p.inter_method >= 0 && p.inter_method <= 4) || p.inter_method == 9 || p.inter_method == 10,
      "ImageRecordIter: inter_method must be 0 to 4, 9 or 10, got ", p.inter_method);
  MX_CHECK(!p.random_resized_crop || (!p.rand_crop && p.max_random_scale == 1 &&
                                      p.min_random_scale == 1 && p.max_crop_size <= 0),
           "ImageRecordIter: random_resized_crop must not be given together with rand_crop, random "
           "scale or crop size");
  MX_CHECK(p.min_random_area <= p.max_random_area,
           "ImageRecordIter: min_random_area must be at most max_random_area, ", p.max_random_area,
           ", got ", p.min_random_area);
  MX_CHECK(p.min_random_scale <= p.max_random_scale,
           "ImageRecordIter: min_random_scale must be at most max_random_scale, ",
           p.max_random_scale, ", got ", p.min_random_scale);
  const float low = p.min_aspect_ratio < 0 ? 1 - p.max_aspect_ratio : p.min_aspect_ratio;
  MX_CHECK(
      !p.random_resized_crop || (low > 0 && (p.min_aspect_ratio < 0 || low <= p.max_aspect_ratio)),
      "ImageRecordIter: min_aspect_ratio must be above 0 and at most max_aspect_ratio, ",
      p.max_aspect_ratio, ", got ", low);
  for (const float s : p.std)
    MX_CHECK(s != 0, "ImageRecordIter: standard deviations must differ from 0, got 0");
}

void transform_image(std::span<const std::byte> bytes, const ImageParams& p, Random& random,
                     const std::string& name, TransformScratch& scratch, void* output) {
  const ImageInfo info = read_image_header(bytes, name);
  MX_CHECK_KIND(p.channels != 4 || info.channels == 4, ErrorKind::kRecord, name,
                ": the image must have 4 channels like data_shape, got ", info.channels);
  if (direct_transform_fits(p) && used_orientation(bytes, p) == 1 &&
      direct_transform(bytes, info, p, random, name, scratch.window, output))
    return;
  try {
    cv::Mat image = decode_short_side(bytes, info, p, name, random);
    if (warps(p)) image = warped(image, p, random);
    if (p.pad > 0)
      cv::copyMakeBorder(image, image, p.pad, p.pad, p.pad, p.pad, cv::BORDER_CONSTANT,
                         cv::Scalar::all(p.fill_value));
    image = cropped(image, p, random);
    if (p.brightness > 0 || p.contrast > 0 || p.saturation > 0) jitter(image, p, random);
    if (p.channels == 3) {
      if (p.random_h > 0 || p.random_s > 0 || p.random_l > 0) {
        const int hue = uniform_int(random, -p.random_h, p.random_h);
        const int light = uniform_int(random, -p.random_l, p.random_l);
        shift_hls(image, hue, light, uniform_int(random, -p.random_s, p.random_s));
      }
      if (p.pca_noise > 0) add_pca_noise(image, p.pca_noise, random);
    }
    const SampleLook look = draw_look(p, random);
    for (int y = 0; y < p.height; ++y)
      write_row(image.ptr<unsigned char>(y), p.channels, y, p, look, output);
  } catch (const cv::Exception& e) {
    fail(ErrorKind::kRecord, name, ": ", e.what());
  }
}

}  // namespace mxlite::io
