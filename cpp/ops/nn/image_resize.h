// Resizes (batch, channels, height, width) data by adaptive average pooling or bilinear
// interpolation.
#pragma once
#include <array>
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

struct AdaptiveAvgPoolingParams {
  Shape output_size;
  static constexpr auto fields() {
    return std::tuple(field("output_size", &AdaptiveAvgPoolingParams::output_size,
                            "Height and width; one number for both; empty is 1.")
                          .between(1, kMaxSize));
  }
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
template <>
struct EnumNames<ResizeMode> {
  using E = ResizeMode;
  static constexpr std::array<std::pair<const char*, E>, 7> names = {
      {{"like", E::kLike},
       {"odd_scale", E::kOddScale},
       {"size", E::kSize},
       {"to_even_down", E::kToEvenDown},
       {"to_even_up", E::kToEvenUp},
       {"to_odd_down", E::kToOddDown},
       {"to_odd_up", E::kToOddUp}}};
};

struct BilinearResizeParams {
  int64_t height = 1, width = 1;
  std::optional<float> scale_height, scale_width;
  ResizeMode mode = ResizeMode::kSize;
  bool align_corners = true;
  static constexpr auto fields() {
    using P = BilinearResizeParams;
    return std::tuple(
        field("height", &P::height, "Height of the output, for mode size.").between(1, kMaxSize),
        field("width", &P::width, "Width of the output, for mode size.").between(1, kMaxSize),
        field("scale_height", &P::scale_height, "Factor of the height; replaces height.")
            .above(0)
            .at_most(kMaxSize),
        field("scale_width", &P::scale_width, "Factor of the width; replaces width.")
            .above(0)
            .at_most(kMaxSize),
        field("mode", &P::mode, "How the size of the output is determined."),
        field("align_corners", &P::align_corners,
              "Corner pixels keep their place; otherwise pixels are areas."));
  }
};

// Params of _adaptive_avg_pooling_backward(output_grad) and _bilinear_resize_backward(output_grad).
struct ImageResizeGradParams {
  Shape data_shape;
  bool align_corners = true;
  static constexpr auto fields() {
    using P = ImageResizeGradParams;
    return std::tuple(required_field("data_shape", &P::data_shape, "Shape of the gradient."),
                      field("align_corners", &P::align_corners, "As in the forward call."));
  }
};

}  // namespace mxlite
