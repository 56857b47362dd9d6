// Principal components of ImageNet's colors (RGB), in units of 0 to 255, for random color noise
// (Krizhevsky et al. 2012). Readers, operators and mx.image use them.
#pragma once
#include "cpp/base/host_device.h"

namespace mxlite {

template <class T>
struct PrincipalColors {
  T deviations[3] = {T(55.46), T(4.794), T(1.148)};
  T directions[3][3] = {{T(-0.5675), T(0.7192), T(0.4009)},    // red
                        {T(-0.5808), T(-0.0045), T(-0.8140)},  // green
                        {T(-0.5836), T(-0.6948), T(0.4203)}};  // blue

  // Returns what component k adds to a color channel for a noise value of 1.
  MX_HOST_DEVICE constexpr T part(int channel, int k) const {
    return deviations[k] * directions[channel][k];
  }
};

}  // namespace mxlite
