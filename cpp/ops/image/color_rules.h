// Changes of colors, pixel by pixel, for kernels of every device.
#pragma once
#include <cmath>

#include "cpp/base/host_device.h"
#include "cpp/base/principal_colors.h"

namespace mxlite::color {

MX_HOST_DEVICE inline float gray(float r, float g, float b) {
  return 0.299f * r + 0.587f * g + 0.114f * b;
}

struct Rgb {
  float r, g, b;
};

// Changes the hue after conversion to hue, lightness and saturation. `turn` is in full circles.
MX_HOST_DEVICE inline Rgb turn_hue(const Rgb& v, float turn) {
  const float high = std::fmax(v.r, std::fmax(v.g, v.b)), low = std::fmin(v.r, std::fmin(v.g, v.b));
  const float range = high - low;
  if (range <= 0) return v;
  float hue = high == v.r   ? (v.g - v.b) / range
              : high == v.g ? (v.b - v.r) / range + 2
                            : (v.r - v.g) / range + 4;
  hue += turn * 6;
  hue -= 6 * std::floor(hue / 6);
  const auto channel = [&](float shift) {  // a trapezoid over the circle, which has six sectors
    float h = hue + shift;
    h -= 6 * std::floor(h / 6);
    return low + range * std::fmin(std::fmax(std::fabs(h - 3) - 1, 0.0f), 1.0f);
  };
  return {channel(0), channel(4), channel(2)};
}

// Returns the summand of lighting for each color: noise along the principal components of colors.
MX_HOST_DEVICE inline Rgb light_shift(float a, float b, float c) {
  constexpr PrincipalColors<float> kColors;
  const auto shift = [&](int channel) {
    return kColors.part(channel, 0) * a + kColors.part(channel, 1) * b +
           kColors.part(channel, 2) * c;
  };
  return {shift(0), shift(1), shift(2)};
}

}  // namespace mxlite::color
