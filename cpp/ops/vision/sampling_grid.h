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
            MX_FIELD(cudnn_off, "Accepted for compatibility, without effect."))
};

enum class GridTransform : uint8_t { kAffine, kWarp };
MX_ENUM_NAMES(GridTransform, {"affine", E::kAffine}, {"warp", E::kWarp})

struct GridGeneratorParams {
  GridTransform transform_type = GridTransform::kAffine;
  Shape target_shape = {0, 0};
  MX_FIELDS(
      GridGeneratorParams,
      MX_REQUIRED_FIELD(transform_type,
                        "affine: data is (batch, 6); warp: a flow (batch, 2, height, width)."),
      MX_FIELD(target_shape, "Height and width of an affine grid.").between(0, kMaxSize))
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
            MX_FIELD(target_shape, "Height and width of the output.").between(0, kMaxSize),
            MX_REQUIRED_FIELD(transform_type, "Kind of transformation."),
            MX_REQUIRED_FIELD(sampler_type, "Kind of interpolation."),
            MX_FIELD(cudnn_off, "Accepted for compatibility, without effect."))
};

// Returns the coordinate of pixel i of `size`; a single pixel is at 0.
MX_HOST_DEVICE inline double grid_position(int64_t i, int64_t size) {
  return size > 1 ? -1 + static_cast<double>(i) * 2 / static_cast<double>(size - 1) : 0;
}

}  // namespace mxlite
