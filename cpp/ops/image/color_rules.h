// Changes of colours, pixel by pixel, for the kernels of every device.
#pragma once
#include <cmath>

#include "cpp/base/host_device.h"

namespace mxlite::color {

MX_HOST_DEVICE inline float gray(float r, float g, float b) {
  return 0.299f * r + 0.587f * g + 0.114f * b;
}

struct Rgb {
  float r, g, b;
};

// Through hue, lightness and saturation; `turn` counts full circles.
MX_HOST_DEVICE inline Rgb turn_hue(const Rgb& v, float turn) {
  const float high = std::fmax(v.r, std::fmax(v.g, v.b)), low = std::fmin(v.r, std::fmin(v.g, v.b));
  const float range = high - low;
  if (range <= 0) return v;
  float hue = high == v.r   ? (v.g - v.b) / range
              : high == v.g ? (v.b - v.r) / range + 2
                            : (v.r - v.g) / range + 4;
  hue += turn * 6;
  hue -= 6 * std::floor(hue / 6);
  const auto channel = [&](float shift) {  // a trapezoid over the circle of six sectors
    float h = hue + shift;
    h -= 6 * std::floor(h / 6);
    return low + range * std::fmin(std::fmax(std::fabs(h - 3) - 1, 0.0f), 1.0f);
  };
  return {channel(0), channel(4), channel(2)};
}

// Summand of lighting for each color: eigenvectors of ImageNet's colors times the roots of their
// eigenvalues (Krizhevsky et al. 2012).
MX_HOST_DEVICE inline Rgb light_shift(float a, float b, float c) {
  return {55.46f * -0.5675f * a + 4.794f * 0.7192f * b + 1.148f * 0.4009f * c,
          55.46f * -0.5808f * a + 4.794f * -0.0045f * b + 1.148f * -0.8140f * c,
          55.46f * -0.5836f * a + 4.794f * -0.6948f * b + 1.148f * 0.4203f * c};
}

}  // namespace mxlite::color
