#include "cpp/io/image_transform.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "cpp/io/decode.h"

namespace mxlite::io {
namespace {

float uniform(Random& random, float low, float high) {
  if (low == high) return low;
  return std::uniform_real_distribution<float>(low, high)(random);
}
int uniform_int(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

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

bool warps(const ImageParams& p) {
  return p.max_rotate_angle > 0 || p.rotate > 0 || !p.rotate_list.empty() ||
         p.max_shear_ratio > 0 || p.max_random_scale != 1 || p.min_random_scale != 1 ||
         (!p.random_resized_crop && p.max_aspect_ratio != 0) || p.max_img_size != 1e10F ||
         p.min_img_size != 0;
}

// The largest denominator that leaves the short side at least as long as it will be used: only
// when the image is resized right after, so that crops see the same picture.
int scaled_decode(const JpegInfo& info, const ImageParams& params) {
  if (params.resize <= 0) return 1;
  int denominator = 1;
  while (denominator < 8 && std::min(info.width, info.height) / (2 * denominator) >= params.resize)
    denominator *= 2;
  return denominator;
}

cv::Mat decode(std::span<const std::byte> jpeg, const ImageParams& params,
               const std::string& name) {
  DecodeOptions options;
  options.name = name;
  options.order = params.channels == 1 ? ColorOrder::kGray : ColorOrder::kRGB;
  const JpegInfo info = read_jpeg_header(jpeg, name);
  options.denominator = scaled_decode(info, params);
  const int d = options.denominator;
  cv::Mat image((info.height + d - 1) / d, (info.width + d - 1) / d,
                params.channels == 1 ? CV_8UC1 : CV_8UC3);
  decode_jpeg_into(jpeg, options, image.data);
  return image;
}

cv::Mat short_side_resized(const cv::Mat& image, const ImageParams& params, Random& random) {
  if (params.resize <= 0) return image;
  const int64_t side = params.resize;
  const cv::Size size =
      image.rows > image.cols
          ? cv::Size(params.resize, static_cast<int>(side * image.rows / image.cols))
          : cv::Size(static_cast<int>(side * image.cols / image.rows), params.resize);
  return resized(image, size, params, random);
}

cv::Mat warped(const cv::Mat& image, const ImageParams& p, Random& random) {
  const float shear = uniform(random, -p.max_shear_ratio, p.max_shear_ratio);
  int angle = uniform_int(random, -p.max_rotate_angle, p.max_rotate_angle);
  if (p.rotate > 0) angle = p.rotate;
  if (!p.rotate_list.empty())
    angle = p.rotate_list[static_cast<size_t>(
        uniform_int(random, 0, static_cast<int>(p.rotate_list.size()) - 1))];
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

cv::Rect placed(cv::Size outer, cv::Size inner, bool at_random, Random& random) {
  const int x = outer.width - inner.width, y = outer.height - inner.height;
  if (!at_random) return {{x / 2, y / 2}, inner};
  const int top = uniform_int(random, 0, y), left = uniform_int(random, 0, x);
  return {{left, top}, inner};
}

// Ten tries for a rectangle of random area and ratio, as 1.x; empty if none fits.
cv::Rect random_rectangle(cv::Size outer, const ImageParams& p, Random& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float area = uniform(random, p.min_random_area, p.max_random_area) *
                       static_cast<float>(outer.width) * static_cast<float>(outer.height);
    const float low = p.min_aspect_ratio < 0 ? 1 - p.max_aspect_ratio : p.min_aspect_ratio;
    const float high = p.min_aspect_ratio < 0 ? 1 + p.max_aspect_ratio : p.max_aspect_ratio;
    const float ratio = uniform(random, low, high);
    cv::Size size(static_cast<int>(std::lround(std::sqrt(area * ratio))),
                  static_cast<int>(std::lround(std::sqrt(area / ratio))));
    if (uniform(random, 0, 1) > 0.5F) std::swap(size.width, size.height);
    if (size.width > 0 && size.height > 0 && size.width <= outer.width &&
        size.height <= outer.height)
      return placed(outer, size, true, random);
  }
  return {};
}

cv::Mat cropped(cv::Mat image, const ImageParams& p, Random& random) {
  const cv::Size target(p.width, p.height);
  if (p.random_resized_crop) {
    const cv::Rect rectangle = random_rectangle(image.size(), p, random);
    if (!rectangle.empty()) return resized(image(rectangle), target, p, random);
  } else if (p.max_crop_size > 0) {
    const int limit = std::min({p.max_crop_size, image.cols, image.rows});
    const int side = uniform_int(random, std::min(std::max(p.min_crop_size, 1), limit), limit);
    return resized(image(placed(image.size(), {side, side}, p.rand_crop, random)), target, p,
                   random);
  }
  if (image.rows < p.height || image.cols < p.width) {
    const double factor = std::max(static_cast<double>(p.height) / image.rows,
                                   static_cast<double>(p.width) / image.cols);
    const cv::Size size(std::max(p.width, static_cast<int>(std::lround(factor * image.cols))),
                        std::max(p.height, static_cast<int>(std::lround(factor * image.rows))));
    image = resized(image, size, p, random);
  }
  return image(placed(image.size(), target, p.rand_crop, random));
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

void shift_hls(cv::Mat& image, const ImageParams& p, Random& random) {
  const int shifts[3] = {uniform_int(random, -p.random_h, p.random_h),
                         uniform_int(random, -p.random_l, p.random_l),
                         uniform_int(random, -p.random_s, p.random_s)};
  static constexpr int kLimits[3] = {180, 255, 255};
  cv::cvtColor(image, image, cv::COLOR_RGB2HLS);
  for (int y = 0; y < image.rows; ++y) {
    auto* row = image.ptr<unsigned char>(y);
    for (int i = 0; i < 3 * image.cols; ++i)
      row[i] = static_cast<unsigned char>(std::clamp(row[i] + shifts[i % 3], 0, kLimits[i % 3]));
  }
  cv::cvtColor(image, image, cv::COLOR_HLS2RGB);
}

// Eigenvalues and eigenvectors of the colours of ImageNet (RGB), as AlexNet's authors used them.
void add_pca_noise(cv::Mat& image, float sigma, Random& random) {
  static constexpr float kValues[3] = {55.46F, 4.794F, 1.148F};
  static constexpr float kVectors[3][3] = {
      {-0.5675F, 0.7192F, 0.4009F}, {-0.5808F, -0.0045F, -0.8140F}, {-0.5836F, -0.6948F, 0.4203F}};
  std::normal_distribution<float> normal(0, sigma);
  float alpha[3];
  for (float& a : alpha) a = normal(random);
  cv::Scalar shift;
  for (int c = 0; c < 3; ++c)
    for (int k = 0; k < 3; ++k)
      shift[c] += static_cast<double>(kVectors[c][k] * alpha[k] * kValues[k]);
  cv::add(image, shift, image);
}

// Normalizes, casts, mirrors and goes from HWC to CHW in one pass.
template <class T>
void write_sample(const cv::Mat& image, const ImageParams& p, Random& random, T* output) {
  const bool flip = p.mirror != (p.rand_mirror && uniform_int(random, 0, 1) == 1);
  const float contrast = 1 + uniform(random, -p.max_random_contrast, p.max_random_contrast);
  const float light = uniform(random, -p.max_random_illumination, p.max_random_illumination);
  const int channels = p.channels;
  for (int c = 0; c < channels; ++c) {
    const auto slot = static_cast<size_t>(c);
    const float factor = contrast * p.scale / p.std[slot];
    const float shift = light * p.scale / p.std[slot];
    for (int y = 0; y < p.height; ++y) {
      const unsigned char* row = image.ptr<unsigned char>(y) + c;
      const int64_t begin = (static_cast<int64_t>(c) * p.height + y) * p.width;
      const float* means =
          p.mean_image.empty() ? nullptr : p.mean_image.data() + static_cast<size_t>(begin);
      for (int x = 0; x < p.width; ++x) {
        const int target = flip ? p.width - 1 - x : x;
        const float pixel = row[x * channels];
        if constexpr (std::is_same_v<T, float>) {
          output[begin + target] = (pixel - (means ? means[x] : p.mean[slot])) * factor + shift;
        } else {  // 1.x: integer outputs are the pixels, int8 minus its means
          const float value = std::is_same_v<T, int8_t> ? pixel - p.mean[slot] : pixel;
          output[begin + target] = static_cast<T>(std::clamp<float>(
              value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
        }
      }
    }
  }
}

}  // namespace

void check_image_params(const ImageParams& p) {
  MX_CHECK(p.channels == 1 || p.channels == 3, "ImageRecordIter: data_shape (", p.channels, ", ",
           p.height, ", ", p.width, ") given, 1 or 3 channels expected");
  MX_CHECK(p.height > 0 && p.width > 0, "ImageRecordIter: data_shape (", p.channels, ", ", p.height,
           ", ", p.width, ") given, positive sizes expected");
  MX_CHECK(
      (p.inter_method >= 0 && p.inter_method <= 4) || p.inter_method == 9 || p.inter_method == 10,
      "ImageRecordIter: inter_method ", p.inter_method, " given, 0 to 4, 9 or 10 expected");
  MX_CHECK(!p.random_resized_crop || (!p.rand_crop && p.max_random_scale == 1 &&
                                      p.min_random_scale == 1 && p.max_crop_size <= 0),
           "ImageRecordIter: random_resized_crop given together with rand_crop, random scale or "
           "crop size");
  MX_CHECK(
      p.min_random_area > 0 && p.min_random_area <= p.max_random_area && p.max_random_area <= 1,
      "ImageRecordIter: min_random_area ", p.min_random_area, " and max_random_area ",
      p.max_random_area, " given, 0 < min <= max <= 1 expected");
  MX_CHECK(p.min_random_scale > 0 && p.min_random_scale <= p.max_random_scale,
           "ImageRecordIter: min_random_scale ", p.min_random_scale, " and max_random_scale ",
           p.max_random_scale, " given, 0 < min <= max expected");
  const float low = p.min_aspect_ratio < 0 ? 1 - p.max_aspect_ratio : p.min_aspect_ratio;
  MX_CHECK(
      !p.random_resized_crop || (low > 0 && (p.min_aspect_ratio < 0 || low <= p.max_aspect_ratio)),
      "ImageRecordIter: min_aspect_ratio ", low, " and max_aspect_ratio ", p.max_aspect_ratio,
      " given, 0 < min <= max expected");
  MX_CHECK(p.max_rotate_angle >= 0 && p.max_shear_ratio >= 0 && p.max_aspect_ratio >= 0 &&
               p.pad >= 0 && p.random_h >= 0 && p.random_s >= 0 && p.random_l >= 0 &&
               p.pca_noise >= 0 && p.max_random_contrast >= 0 && p.max_random_illumination >= 0,
           "ImageRecordIter: a negative range given");
  for (const float s : p.std) MX_CHECK(s != 0, "ImageRecordIter: a standard deviation of 0 given");
}

void transform_image(std::span<const std::byte> jpeg, const ImageParams& p, Random& random,
                     const std::string& name, void* output) {
  try {
    cv::Mat image = short_side_resized(decode(jpeg, p, name), p, random);
    if (warps(p)) image = warped(image, p, random);
    if (p.pad > 0)
      cv::copyMakeBorder(image, image, p.pad, p.pad, p.pad, p.pad, cv::BORDER_CONSTANT,
                         cv::Scalar::all(p.fill_value));
    image = cropped(image, p, random);
    if (p.brightness > 0 || p.contrast > 0 || p.saturation > 0) jitter(image, p, random);
    if (p.channels == 3) {
      if (p.random_h > 0 || p.random_s > 0 || p.random_l > 0) shift_hls(image, p, random);
      if (p.pca_noise > 0) add_pca_noise(image, p.pca_noise, random);
    }
    if (p.dtype == DType::kUInt8) {
      write_sample(image, p, random, static_cast<uint8_t*>(output));
    } else if (p.dtype == DType::kInt8) {
      write_sample(image, p, random, static_cast<int8_t*>(output));
    } else {
      write_sample(image, p, random, static_cast<float*>(output));
    }
  } catch (const cv::Exception& e) {
    fail(ErrorKind::kRecord, name, ": ", e.what());
  }
}

}  // namespace mxlite::io
