// fft: discrete Fourier transform of real vectors (the last axis) to interleaved real and imaginary
// parts. ifft: real part of the inverse transform of interleaved numbers, times their count as
// cuFFT leaves it. Each is the other's gradient.
#pragma once
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct FftParams {
  int64_t compute_size = 128;
  static constexpr auto fields() {
    return std::tuple(field("compute_size", &FftParams::compute_size,
                            "Accepted for compatibility, without effect."));
  }
};

}  // namespace mxlite
