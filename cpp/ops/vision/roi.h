// Pooling over regions of interest. data is (batch, channels, height, width). A row of rois is
// (image, x1, y1, x2, y2) in pixels of the input image; if image < 0, the result is 0.
#pragma once
#include "cpp/base/host_device.h"
#include "cpp/ops/attr.h"

namespace mxlite {

struct RoiPoolingParams {
  Shape pooled_size;
  float spatial_scale = 1;
  MX_FIELDS(RoiPoolingParams,
            MX_REQUIRED_FIELD(pooled_size,
                              "Height and width of the output: the number of bins along each axis.")
                .between(1, kMaxSize),
            MX_REQUIRED_FIELD(
                spatial_scale,
                "Factor that converts coordinates of rois to pixels of data, such as 1 / stride.")
                .between(-kMaxReal, kMaxReal))
};

struct RoiAlignParams : RoiPoolingParams {
  int64_t sample_ratio = -1;
  bool position_sensitive = false, aligned = false;
  MX_FIELDS(RoiAlignParams, RoiPoolingParams::fields(),
            MX_FIELD(sample_ratio,
                     "Number of samples of each bin along each axis; 0 or less takes one sample "
                     "per pixel of the bin, rounded up.")
                .between(-kMaxSize, 512),
            MX_FIELD(position_sensitive, "Whether each bin reads a separate group of channels."),
            MX_FIELD(aligned,
                     "Whether pixel centers have half coordinates, such as 0.5; False gives them "
                     "whole coordinates."))
};

// A row of rois is (image, center x, center y, width, height, angle in degrees).
struct RotatedRoiAlignParams : RoiPoolingParams {
  int64_t sampling_ratio = -1;
  MX_FIELDS(RotatedRoiAlignParams, RoiPoolingParams::fields(),
            MX_FIELD(sampling_ratio,
                     "Number of samples of each bin along each axis; 0 or less takes one sample "
                     "per pixel of the bin, rounded up.")
                .between(-kMaxSize, 128))
};

struct PsRoiPoolingParams {
  float spatial_scale = 1;
  int64_t output_dim = 1, pooled_size = 1, group_size = 0;
  MX_FIELDS(PsRoiPoolingParams,
            MX_REQUIRED_FIELD(
                spatial_scale,
                "Factor that converts coordinates of rois to pixels of data, such as 1 / stride.")
                .between(-kMaxReal, kMaxReal),
            MX_REQUIRED_FIELD(output_dim, "Number of channels of the output.").between(1, kMaxSize),
            MX_REQUIRED_FIELD(pooled_size,
                              "Height and width of the output: the number of bins along each axis.")
                .between(1, kMaxSize),
            MX_FIELD(group_size,
                     "Number of groups along height and width: data has output_dim * group_size^2 "
                     "channels. 0 is pooled_size.")
                .between(0, kMaxSize))
  int64_t groups() const { return group_size > 0 ? group_size : pooled_size; }
};

struct DeformablePsRoiPoolingParams {
  float spatial_scale = 1;
  int64_t output_dim = 1, group_size = 1, pooled_size = 1, part_size = 0, sample_per_part = 1;
  float trans_std = 0;
  bool no_trans = false;
  MX_FIELDS(
      DeformablePsRoiPoolingParams,
      MX_REQUIRED_FIELD(
          spatial_scale,
          "Factor that converts coordinates of rois to pixels of data, such as 1 / stride.")
          .between(-kMaxReal, kMaxReal),
      MX_REQUIRED_FIELD(output_dim, "Number of channels of the output.").between(1, kMaxSize),
      MX_REQUIRED_FIELD(
          group_size,
          "Number of groups along height and width: data has output_dim * group_size^2 channels.")
          .between(1, kMaxSize),
      MX_REQUIRED_FIELD(pooled_size,
                        "Height and width of the output: the number of bins along each axis.")
          .between(1, kMaxSize),
      MX_FIELD(part_size, "Height and width of trans; 0 is pooled_size.").between(0, kMaxSize),
      MX_FIELD(sample_per_part, "Number of samples of each bin along each axis.").between(1, 64),
      MX_FIELD(trans_std,
               "Factor of trans; a bin moves by trans * trans_std times the size of its region.")
          .between(-kMaxReal, kMaxReal),
      MX_FIELD(no_trans, "Whether to omit the input trans, so that bins are not moved."))
  MX_HOST_DEVICE int64_t parts() const { return part_size > 0 ? part_size : pooled_size; }
};

// Parameters of the gradients, which need the shape of data.
template <class Forward>
struct RoiGradParams : Forward {
  Shape data_shape;
  MX_FIELDS(RoiGradParams, Forward::fields(),
            MX_REQUIRED_FIELD(data_shape, "Shape of the gradient."))
};

}  // namespace mxlite
