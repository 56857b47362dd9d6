// Separable image resizing.
#pragma once
#include "cpp/ops/image/image.h"
#include "cpp/ops/image/resampling.h"

namespace mxlite::cpu {

using resampling::Interpolation;

void resample(KernelContext& ctx, Interpolation kind, const TensorRef& in, const ImageView& from,
              const TensorRef& out, const ImageView& to);

}  // namespace mxlite::cpu
