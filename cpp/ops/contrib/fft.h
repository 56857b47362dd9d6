// fft: discrete Fourier transform of real vectors (the last axis) to interleaved real and imaginary
// parts. ifft: real part of the inverse transform of interleaved numbers, multiplied by their
// count, as in cuFFT. Each operator is the other's gradient.
#pragma once
#include "cpp/ops/attr.h"

namespace mxlite {

struct FftParams {
  int64_t compute_size = 128;
  MX_FIELDS(FftParams,
            MX_FIELD(compute_size, "Has no effect; accepted for compatibility with MXNet 1.x."))
};

}  // namespace mxlite
