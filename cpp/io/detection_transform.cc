#include "cpp/io/detection_transform.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "cpp/io/cv_image.h"
#include "cpp/io/image_geometry.h"
#include "cpp/io/sample_writer.h"

namespace mxlite::io {
namespace {

using Box = cv::Rect_<float>;

Box box_of(const float* object) {
  return {object[1], object[2], object[3] - object[1], object[4] - object[2]};
}

bool chosen(Random& random, float probability) {
  return probability > 0 && uniform(random, 0, 1) < probability;
}

// Makes an object's coordinates relative to `frame` and clips them to the borders of `frame`.
void project(float* object, const Box& frame) {
  const auto share = [](float place, float begin, float length) {
    return std::clamp((place - begin) / length, 0.0F, 1.0F);
  };
  object[1] = share(object[1], frame.x, frame.width);
  object[2] = share(object[2], frame.y, frame.height);
  object[3] = share(object[3], frame.x, frame.width);
  object[4] = share(object[4], frame.y, frame.height);
}

template <class Use>
void for_each_object(BoxLabel& label, Use use) {
  for (size_t i = 0; i < label.objects.size(); i += static_cast<size_t>(label.object_width))
    use(label.objects.data() + i);
}

float share_of(float part, float whole) { return whole > 0 ? part / whole : 0; }

bool allowed(const Box& crop, const Box& box, const CropSampler& s) {
  const float both = (crop & box).area();
  const auto within = [](float value, float low, float high) {
    return (low <= 0 || value >= low) && (high >= 1 || value <= high);
  };
  return within(share_of(both, crop.area() + box.area() - both), s.min_overlap, s.max_overlap) &&
         within(share_of(both, crop.area()), s.min_sample_coverage, s.max_sample_coverage) &&
         within(share_of(both, box.area()), s.min_object_coverage, s.max_object_coverage);
}

bool stays(const Box& crop, const Box& box, const DetectionParams& p) {
  if (p.crop_emit_mode == CropEmit::kOverlap)
    return (crop & box).area() > p.emit_overlap_thresh * box.area();
  return crop.contains({box.x + box.width / 2, box.y + box.height / 2});
}

// Restricts the label to the crop. Returns false if no box meets the limits or if no box would
// remain.
bool cut_label(BoxLabel& label, const Box& crop, const CropSampler& sampler,
               const DetectionParams& p) {
  if (label.objects.empty()) return true;
  bool valid = false;
  std::vector<float> left;
  for_each_object(label, [&](float* object) {
    valid = valid || allowed(crop, box_of(object), sampler);
    if (!stays(crop, box_of(object), p)) return;
    left.insert(left.end(), object, object + label.object_width);
    project(left.data() + left.size() - label.object_width, crop);
  });
  if (!valid || left.empty()) return false;
  label.objects = std::move(left);
  return true;
}

// Draws a rectangle. Its ratio of width to height, in pixels, is clamped so that it fits into the
// image.
cv::Rect draw_crop(const CropSampler& s, cv::Size image, Random& random) {
  const float scale = std::max(uniform(random, s.min_scale, s.max_scale), 1e-6F);
  const float square = static_cast<float>(image.height) / static_cast<float>(image.width);
  const auto bounded = [&](float ratio) {
    return std::clamp(ratio * square, std::min(scale * scale, 1.0F),
                      std::max(1 / (scale * scale), 1.0F));
  };
  const float root = std::sqrt(uniform(random, bounded(s.min_ratio), bounded(s.max_ratio)));
  const float width = std::min(1.0F, scale * root), height = std::min(1.0F, scale / root);
  const float x = uniform(random, 0, 1 - width), y = uniform(random, 0, 1 - height);
  const auto pixels = [](float share, int side) {
    return static_cast<int>(share * static_cast<float>(side));
  };
  return {pixels(x, image.width), pixels(y, image.height), pixels(width, image.width),
          pixels(height, image.height)};
}

cv::Mat cropped(const cv::Mat& image, const DetectionParams& p, Random& random, BoxLabel& label) {
  std::vector<const CropSampler*> order;
  for (const CropSampler& sampler : p.samplers) order.push_back(&sampler);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (const CropSampler* sampler : order) {
    for (int trial = 0; trial < sampler->trials; ++trial) {
      const cv::Rect pixels = draw_crop(*sampler, image.size(), random);
      if (pixels.empty()) continue;
      const auto share = [](int place, int side) {
        return static_cast<float>(place) / static_cast<float>(side);
      };
      const Box crop(share(pixels.x, image.cols), share(pixels.y, image.rows),
                     share(pixels.width, image.cols), share(pixels.height, image.rows));
      if (!cut_label(label, crop, *sampler, p)) continue;
      return image(pixels);
    }
  }
  return image;
}

cv::Mat padded(const cv::Mat& image, const ImageParams& params, const DetectionParams& p,
               Random& random, BoxLabel& label) {
  const float scale = uniform(random, 1, p.max_pad_scale);
  const float x = uniform(random, 0, scale - 1), y = uniform(random, 0, scale - 1);
  const auto pixels = [](float share, int side) {
    return static_cast<int>(share * static_cast<float>(side));
  };
  const int left = pixels(x, image.cols), top = pixels(y, image.rows);
  const int width = std::max(pixels(scale, image.cols), left + image.cols);
  const int height = std::max(pixels(scale, image.rows), top + image.rows);
  cv::Mat result;
  cv::copyMakeBorder(image, result, top, height - top - image.rows, left, width - left - image.cols,
                     cv::BORDER_CONSTANT, cv::Scalar::all(params.fill_value));
  const Box frame(-x, -y, scale, scale);
  for_each_object(label, [&](float* object) { project(object, frame); });
  return result;
}

void color_jitter(cv::Mat& image, const DetectionParams& p, Random& random) {
  const auto shift = [&](int range, float probability) {
    return chosen(random, probability) ? uniform_int(random, -range, range) : 0;
  };
  const int hue = shift(p.max_random_hue, p.random_hue_prob);
  const int light = shift(p.max_random_illumination, p.random_illumination_prob);
  const int saturation = shift(p.max_random_saturation, p.random_saturation_prob);
  if (image.channels() == 3 && (hue != 0 || light != 0 || saturation != 0))
    shift_hls(image, hue, light, saturation);
  if (chosen(random, p.random_contrast_prob))
    image.convertTo(image, -1, 1 + uniform(random, -p.max_random_contrast, p.max_random_contrast));
}

cv::Size final_size(cv::Size image, const ImageParams& params, ResizeMode mode) {
  const cv::Size target(params.width, params.height);
  if (mode == ResizeMode::kForce) return target;
  const double scale = std::min(static_cast<double>(target.width) / image.width,
                                static_cast<double>(target.height) / image.height);
  if (mode == ResizeMode::kShrink && scale >= 1) return image;
  return {std::clamp(static_cast<int>(std::lround(scale * image.width)), 1, target.width),
          std::clamp(static_cast<int>(std::lround(scale * image.height)), 1, target.height)};
}

}  // namespace

void check_samplers(const std::vector<CropSampler>& samplers) {
  for (const CropSampler& sampler : samplers) {
    std::string low_name;
    float low = 0;
    for_each_field<CropSampler>([&](const auto& f) {  // each min_x field precedes its max_x
      const auto value = static_cast<float>(sampler.*(f.member));
      const std::string name = f.name;
      if (name.starts_with("min_")) {
        low_name = name;
        low = value;
      } else if (name == "max_" + low_name.substr(4)) {
        MX_CHECK(0 <= low && low <= value, "ImageDetRecordIter: ", low_name, " must be in [0, ",
                 name, "], got ", low_name, " ", low, " and ", name, " ", value);
      }
    });
  }
}

BoxLabel parse_box_label(std::span<const float> raw, const std::string& name) {
  const auto size = static_cast<int64_t>(raw.size());
  MX_CHECK_KIND(size >= 2, ErrorKind::kRecord, name,
                ": labels must be header width, object width and boxes, got ", size, " numbers");
  const float header = raw[0], width = raw[1];
  MX_CHECK_KIND(header >= 2 && header <= static_cast<float>(size) && width >= 5 &&
                    width <= static_cast<float>(size) &&
                    (size - static_cast<int64_t>(header)) % static_cast<int64_t>(width) == 0,
                ErrorKind::kRecord, name,
                ": labels must have a header width of at least 2, an object width of at least 5 "
                "and whole boxes, got ",
                size, " labels with header width ", header, " and object width ", width);
  const auto begin = raw.begin() + static_cast<int64_t>(header);
  BoxLabel label;
  label.header.assign(raw.begin(), begin);
  label.object_width = static_cast<int64_t>(width);
  label.objects.assign(begin, raw.end());
  return label;
}

void transform_detection(std::span<const std::byte> bytes, const ImageParams& params,
                         const DetectionParams& p, Random& random, const std::string& name,
                         DetectionSample& sample, void* output) {
  const ImageInfo info = read_image_header(bytes, name);
  MX_CHECK_KIND(params.channels != 4 || info.channels == 4, ErrorKind::kRecord, name,
                ": the image must have 4 channels like data_shape, got ", info.channels);
  try {
    cv::Mat image = decode_short_side(bytes, info, params, name, random);
    color_jitter(image, p, random);
    SampleLook look = draw_look(params, random);
    if (chosen(random, p.rand_mirror_prob)) {
      cv::Mat mirrored;
      cv::flip(image, mirrored, 1);
      image = mirrored;
      for_each_object(sample.label, [](float* object) {
        object[1] = 1 - object[1];
        object[3] = 1 - object[3];
        std::swap(object[1], object[3]);
      });
    }
    if (p.max_pad_scale > 1 && chosen(random, p.rand_pad_prob))
      image = padded(image, params, p, random, sample.label);
    if (!p.samplers.empty() && chosen(random, p.rand_crop_prob))
      image = cropped(image, p, random, sample.label);
    const cv::Size size = final_size(image.size(), params, p.resize_mode);
    image = resized(image, size, params, random);
    sample.height = size.height;
    sample.width = size.width;
    // Pads the image to the sample's size.
    if (size.width < params.width || size.height < params.height)
      cv::copyMakeBorder(image, image, 0, params.height - size.height, 0, params.width - size.width,
                         cv::BORDER_CONSTANT, cv::Scalar::all(params.fill_value));
    for (int y = 0; y < params.height; ++y)
      write_row(image.ptr<unsigned char>(y), params.channels, y, params, look, output);
  } catch (const cv::Exception& e) {
    fail(ErrorKind::kRecord, name, ": ", e.what());
  }
}

}  // namespace mxlite::io
