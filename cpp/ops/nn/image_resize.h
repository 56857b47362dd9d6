// Resizes (batch, channels, height, width) data by average pooling or interpolation.
#pragma once
#include <optional>

#include "cpp/ops/attr.h"

namespace mxlite {

struct AdaptiveAvgPoolingParams {
  Shape output_size;
  MX_FIELDS(AdaptiveAvgPoolingParams,
            MX_FIELD(output_size,
                     "Height and width of the output; one number is used for both, () is 1.")
                .between(1, kMaxSize))
};

enum class ResizeMode : uint8_t {
  kLike,
  kOddScale,
  kSize,
  kToEvenDown,
  kToEvenUp,
  kToOddDown,
  kToOddUp
};
MX_ENUM_NAMES(ResizeMode, {"like", E::kLike}, {"odd_scale", E::kOddScale}, {"size", E::kSize},
              {"to_even_down", E::kToEvenDown}, {"to_even_up", E::kToEvenUp},
              {"to_odd_down", E::kToOddDown}, {"to_odd_up", E::kToOddUp})

struct BilinearResizeParams {
  int64_t height = 1, width = 1;
  std::optional<float> scale_height, scale_width;
  ResizeMode mode = ResizeMode::kSize;
  bool align_corners = true;
  MX_FIELDS(BilinearResizeParams,
            MX_FIELD(height, "Height of the output in mode 'size'.").between(1, kMaxSize),
            MX_FIELD(width, "Width of the output in mode 'size'.").between(1, kMaxSize),
            MX_FIELD(scale_height, "Factor of data's height, in place of height.")
                .above(0)
                .at_most(kMaxSize),
            MX_FIELD(scale_width, "Factor of data's width, in place of width.")
                .above(0)
                .at_most(kMaxSize),
            MX_FIELD(mode,
                     "How the output's size is chosen: size: by height and width or the scales; "
                     "like: that of like; odd_scale: size * scale, or (size - 1) * scale + 1 for "
                     "odd sizes; to_even_down and so on: the nearest even or odd size."),
            MX_FIELD(align_corners,
                     "Whether the centers of data's corner pixels stay at the corners; False "
                     "aligns the outer edges of pixels instead."))
};

// Params of _adaptive_avg_pooling_backward(output_grad) and _bilinear_resize_backward(output_grad).
struct ImageResizeGradParams {
  Shape data_shape;
  bool align_corners = true;
  MX_FIELDS(ImageResizeGradParams, MX_REQUIRED_FIELD(data_shape, "Shape of the gradient."),
            MX_FIELD(align_corners, "As in the forward call."))
};

}  // namespace mxlite
