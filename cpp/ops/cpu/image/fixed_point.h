// Resizing of uint8 images in integers.
#pragma once
#include "cpp/ops/image/image.h"
#include "cpp/ops/image/resampling.h"

namespace mxlite::cpu {

// Bit for bit what OpenCV gives for bilinear and enlarging area interpolation and for halving by
// area; returns false for other kinds, which leaves `out` as it is.
bool resample_fixed_point(KernelContext& ctx, resampling::Interpolation kind, const TensorRef& in,
                          const ImageView& from, const TensorRef& out, const ImageView& to);

}  // namespace mxlite::cpu
