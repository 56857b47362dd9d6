// Deformable convolution: at each output position, each element of the window is sampled (bilinear
// interpolation) at its own offset (y, x) in pixels. offset is (batch, deformable groups * kernel
// size * 2, out height, out width). The modulated form multiplies each element by a factor `mask`.
#pragma once
#include <optional>
#include <tuple>

#include "cpp/ops/nn/spatial.h"

namespace mxlite {

struct DeformableConvolutionParams {
  Shape kernel, stride, dilate, pad;
  int64_t num_filter = 0, num_group = 1, num_deformable_group = 1, workspace = 1024;
  bool no_bias = false;
  std::optional<SpatialLayout> layout;

  static constexpr auto first_fields() {
    using P = DeformableConvolutionParams;
    return std::tuple_cat(
        window_fields<P>("Height and width of the window."), filter_fields<P>(),
        std::tuple(MX_FIELD(num_deformable_group,
                            "Number of groups of channels of data that have separate offsets.")
                       .between(1, kMaxSize),
                   MX_FIELD(workspace, "Has no effect; accepted for compatibility with MXNet 1.x."),
                   MX_FIELD(no_bias, "Whether to omit the input bias.")));
  }
  static constexpr auto layout_field() {
    return std::tuple(field("layout", &DeformableConvolutionParams::layout,
                            "Order of data's dimensions; only NCHW, which None also means."));
  }
  static constexpr auto fields() { return std::tuple_cat(first_fields(), layout_field()); }
  static constexpr bool kModulated = false;

  SpatialWindow window() const { return make_window(kernel, stride, dilate, pad); }
};

struct ModulatedDeformableConvolutionParams : DeformableConvolutionParams {
  int64_t im2col_step = 64;
  MX_FIELDS(ModulatedDeformableConvolutionParams, first_fields(),
            MX_FIELD(im2col_step, "Has no effect; accepted for compatibility with MXNet 1.x."),
            layout_field())
  static constexpr bool kModulated = true;
};

// Index of the input weight. Inputs: data, offset, mask if modulated, weight, bias unless no_bias.
template <class P>
constexpr int kWeightInput = P::kModulated ? 3 : 2;

}  // namespace mxlite
