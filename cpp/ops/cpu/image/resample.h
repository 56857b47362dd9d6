// Separable image resizing.
#pragma once
#include "cpp/ops/image/image.h"

namespace mxlite::cpu {

// Numbers are OpenCV's and MXNet's.
enum class Interpolation { kNearest = 0, kBilinear = 1, kBicubic = 2, kArea = 3, kLanczos = 4 };

// Pixel centres of both sizes are aligned as in OpenCV; borders repeat.
void resample(KernelContext& ctx, Interpolation kind, const TensorRef& in, const ImageView& from,
              const TensorRef& out, const ImageView& to);

}  // namespace mxlite::cpu
