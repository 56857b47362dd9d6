#include "cpp/io/sample_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

namespace mxlite::io {
namespace {

struct Plane {
  float mean = 0, factor = 1, shift = 0;
  const float* means = nullptr;  // if set, a mean for each pixel of the row; replaces `mean`
};

// Reads a four-byte pixel as one word, so that the compiler vectorizes the loop with shifts.
template <int kPixel>
int pixel_at(const unsigned char* row, int x, int channel) {
  if constexpr (kPixel == 4) {
    uint32_t word = 0;
    std::memcpy(&word, row + 4 * static_cast<int64_t>(x), sizeof(word));
    return static_cast<int>(word >> (8 * channel) & 255);
  } else {
    return row[kPixel * static_cast<int64_t>(x) + channel];
  }
}

template <class T>
T element(int pixel, float mean, const Plane& plane) {
  if constexpr (std::is_same_v<T, float>) {
    return (static_cast<float>(pixel) - mean) * plane.factor + plane.shift;
  } else if constexpr (std::is_same_v<T, uint8_t>) {
    return static_cast<uint8_t>(pixel);  // unchanged, as in MXNet 1.x
  } else {
    return static_cast<T>(std::clamp<float>(static_cast<float>(pixel) - mean,
                                            std::numeric_limits<T>::min(),
                                            std::numeric_limits<T>::max()));
  }
}

template <class T, int kPixel, bool kFlip, bool kMeans>
void write_plane(const unsigned char* row, int channel, int width, const Plane& plane, T* output) {
  for (int x = 0; x < width; ++x) {
    const int source = kFlip ? width - 1 - x : x;
    const float mean = kMeans ? plane.means[source] : plane.mean;
    output[x] = element<T>(pixel_at<kPixel>(row, source, channel), mean, plane);
  }
}

template <class T, int kPixel>
void write_planes(const unsigned char* row, int y, const ImageParams& p, const SampleLook& look,
                  T* output) {
  for (int c = 0; c < p.channels; ++c) {
    const auto slot = static_cast<size_t>(c);
    const int64_t begin = (static_cast<int64_t>(c) * p.height + y) * p.width;
    Plane plane;
    plane.mean = p.mean[slot];
    plane.factor = look.contrast * p.scale / p.std[slot];
    plane.shift = look.light * p.scale / p.std[slot];
    if (!p.mean_image.empty()) plane.means = p.mean_image.data() + begin;
    const auto write = look.flip ? (plane.means ? write_plane<T, kPixel, true, true>
                                                : write_plane<T, kPixel, true, false>)
                                 : (plane.means ? write_plane<T, kPixel, false, true>
                                                : write_plane<T, kPixel, false, false>);
    write(row, c, p.width, plane, output + begin);
  }
}

template <class T>
void write(const unsigned char* row, int pixel_bytes, int y, const ImageParams& p,
           const SampleLook& look, void* output) {
  auto* elements = static_cast<T*>(output);
  if (pixel_bytes == 1) return write_planes<T, 1>(row, y, p, look, elements);
  if (pixel_bytes == 3) return write_planes<T, 3>(row, y, p, look, elements);
  write_planes<T, 4>(row, y, p, look, elements);
}

}  // namespace

SampleLook draw_look(const ImageParams& p, Random& random) {
  SampleLook look;
  look.flip = p.mirror != (p.rand_mirror && uniform_int(random, 0, 1) == 1);
  look.contrast = 1 + uniform(random, -p.max_random_contrast, p.max_random_contrast);
  look.light = uniform(random, -p.max_random_illumination, p.max_random_illumination);
  return look;
}

void write_row(const unsigned char* row, int pixel_bytes, int y, const ImageParams& p,
               const SampleLook& look, void* output) {
  if (p.dtype == DType::kUInt8) return write<uint8_t>(row, pixel_bytes, y, p, look, output);
  if (p.dtype == DType::kInt8) return write<int8_t>(row, pixel_bytes, y, p, look, output);
  write<float>(row, pixel_bytes, y, p, look, output);
}

}  // namespace mxlite::io
