// Samples an image at the points of a grid (batch, 2, height, width) of x and y, where -1 is the
// first pixel and 1 the last. The image is 0 outside of its borders.
#pragma once
#include <optional>

#include "cpp/base/host_device.h"
#include "cpp/ops/attr.h"

namespace mxlite {

struct BilinearSamplerParams {
  std::optional<bool> cudnn_off;
  MX_FIELDS(BilinearSamplerParams,
            MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."))
};

enum class GridTransform : uint8_t { kAffine, kWarp };
MX_ENUM_NAMES(GridTransform, {"affine", E::kAffine}, {"warp", E::kWarp})

struct GridGeneratorParams {
  GridTransform transform_type = GridTransform::kAffine;
  Shape target_shape = {0, 0};
  MX_FIELDS(GridGeneratorParams,
            MX_REQUIRED_FIELD(transform_type,
                              "affine: data holds a 2 x 3 matrix per image, of shape (N, 6); warp: "
                              "data holds a flow (x, y) in pixels, of shape (N, 2, H, W)."),
            MX_FIELD(target_shape,
                     "Height and width of the grid for transform_type 'affine'; 'warp' uses those "
                     "of the flow.")
                .between(0, kMaxSize))
};

enum class LocTransform : uint8_t { kAffine };
MX_ENUM_NAMES(LocTransform, {"affine", E::kAffine})
enum class SamplerType : uint8_t { kBilinear };
MX_ENUM_NAMES(SamplerType, {"bilinear", E::kBilinear})

struct SpatialTransformerParams {
  Shape target_shape = {0, 0};
  LocTransform transform_type = LocTransform::kAffine;
  SamplerType sampler_type = SamplerType::kBilinear;
  std::optional<bool> cudnn_off;
  MX_FIELDS(SpatialTransformerParams,
            MX_FIELD(target_shape,
                     "Height and width of the output: the number of bins along each axis.")
                .between(0, kMaxSize),
            MX_REQUIRED_FIELD(transform_type, "Kind of transformation; only affine exists."),
            MX_REQUIRED_FIELD(sampler_type, "Kind of interpolation; only bilinear exists."),
            MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."))
};

// Returns the coordinate of pixel i of `size`; a single pixel is at 0.
MX_HOST_DEVICE inline double grid_position(int64_t i, int64_t size) {
  return size > 1 ? -1 + static_cast<double>(i) * 2 / static_cast<double>(size - 1) : 0;
}

}  // namespace mxlite
