// Pooling over regions of interest. data is (batch, channels, height, width). A row of rois is
// (image, x1, y1, x2, y2) in pixels of the input image; if image < 0, the result is 0.
#pragma once
#include <tuple>

#include "cpp/base/host_device.h"
#include "cpp/ops/attr.h"

namespace mxlite {

struct RoiPoolingParams {
  Shape pooled_size;
  float spatial_scale = 1;
  static constexpr auto fields() {
    using P = RoiPoolingParams;
    return std::tuple(
        required_field("pooled_size", &P::pooled_size, "Height and width of the output.")
            .between(1, kMaxSize),
        required_field("spatial_scale", &P::spatial_scale,
                       "Size of data relative to the image that rois refer to.")
            .between(-kMaxReal, kMaxReal));
  }
};

struct RoiAlignParams : RoiPoolingParams {
  int64_t sample_ratio = -1;
  bool position_sensitive = false, aligned = false;
  static constexpr auto fields() {
    using P = RoiAlignParams;
    return std::tuple_cat(
        RoiPoolingParams::fields(),
        std::tuple(field("sample_ratio", &P::sample_ratio,
                         "Samples per bin and axis; not positive: one per pixel.")
                       .between(-kMaxSize, 512),
                   field("position_sensitive", &P::position_sensitive,
                         "Every bin reads channels of its own."),
                   field("aligned", &P::aligned, "Pixel centers are at half coordinates.")));
  }
};

// A row of rois is (image, center x, center y, width, height, angle in degrees).
struct RotatedRoiAlignParams : RoiPoolingParams {
  int64_t sampling_ratio = -1;
  static constexpr auto fields() {
    return std::tuple_cat(RoiPoolingParams::fields(),
                          std::tuple(field("sampling_ratio", &RotatedRoiAlignParams::sampling_ratio,
                                           "Samples per bin and axis; not positive: one per pixel.")
                                         .between(-kMaxSize, 128)));
  }
};

struct PsRoiPoolingParams {
  float spatial_scale = 1;
  int64_t output_dim = 1, pooled_size = 1, group_size = 0;
  static constexpr auto fields() {
    using P = PsRoiPoolingParams;
    return std::tuple(
        required_field("spatial_scale", &P::spatial_scale,
                       "Size of data relative to the image that rois refer to.")
            .between(-kMaxReal, kMaxReal),
        required_field("output_dim", &P::output_dim, "Channels of the output.")
            .between(1, kMaxSize),
        required_field("pooled_size", &P::pooled_size, "Height and width of the output.")
            .between(1, kMaxSize),
        field("group_size", &P::group_size,
              "data has output_dim * group_size^2 channels; 0 is pooled_size.")
            .between(0, kMaxSize));
  }
  int64_t groups() const { return group_size > 0 ? group_size : pooled_size; }
};

struct DeformablePsRoiPoolingParams {
  float spatial_scale = 1;
  int64_t output_dim = 1, group_size = 1, pooled_size = 1, part_size = 0, sample_per_part = 1;
  float trans_std = 0;
  bool no_trans = false;
  static constexpr auto fields() {
    using P = DeformablePsRoiPoolingParams;
    return std::tuple(
        required_field("spatial_scale", &P::spatial_scale,
                       "Size of data relative to the image that rois refer to.")
            .between(-kMaxReal, kMaxReal),
        required_field("output_dim", &P::output_dim, "Channels of the output.")
            .between(1, kMaxSize),
        required_field("group_size", &P::group_size, "data has output_dim * group_size^2 channels.")
            .between(1, kMaxSize),
        required_field("pooled_size", &P::pooled_size, "Height and width of the output.")
            .between(1, kMaxSize),
        field("part_size", &P::part_size, "Height and width of trans; 0 is pooled_size.")
            .between(0, kMaxSize),
        field("sample_per_part", &P::sample_per_part, "Samples per bin and axis.").between(1, 64),
        field("trans_std", &P::trans_std, "Unit of trans, relative to the size of the region.")
            .between(-kMaxReal, kMaxReal),
        field("no_trans", &P::no_trans, "Take no trans input: bins stay in place."));
  }
  MX_HOST_DEVICE int64_t parts() const { return part_size > 0 ? part_size : pooled_size; }
};

// Parameters of the gradients, which need the shape of data.
template <class P>
struct RoiGradParams : P {
  Shape data_shape;
  static constexpr auto fields() {
    return std::tuple_cat(P::fields(),
                          std::tuple(required_field("data_shape", &RoiGradParams::data_shape,
                                                    "Shape of the gradient.")));
  }
};

}  // namespace mxlite
