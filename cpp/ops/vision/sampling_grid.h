// Samples an image at the points of a grid (batch, 2, height, width) of x and y, where -1 is the
// first pixel and 1 the last. The image is 0 outside of its borders.
#pragma once
#include <array>
#include <optional>
#include <tuple>

#include "cpp/base/host_device.h"
#include "cpp/ops/attr.h"

namespace mxlite {

struct BilinearSamplerParams {
  std::optional<bool> cudnn_off;
  static constexpr auto fields() {
    return std::tuple(field("cudnn_off", &BilinearSamplerParams::cudnn_off,
                            "Accepted for compatibility, without effect."));
  }
};

enum class GridTransform : uint8_t { kAffine, kWarp };
template <>
struct EnumNames<GridTransform> {
  static constexpr std::array<std::pair<const char*, GridTransform>, 2> names = {
      {{"affine", GridTransform::kAffine}, {"warp", GridTransform::kWarp}}};
};

struct GridGeneratorParams {
  GridTransform transform_type = GridTransform::kAffine;
  Shape target_shape = {0, 0};
  static constexpr auto fields() {
    using P = GridGeneratorParams;
    return std::tuple(
        required_field("transform_type", &P::transform_type,
                       "affine: data is (batch, 6); warp: a flow (batch, 2, height, width)."),
        field("target_shape", &P::target_shape, "Height and width of an affine grid.")
            .between(0, kMaxSize));
  }
};

enum class LocTransform : uint8_t { kAffine };
template <>
struct EnumNames<LocTransform> {
  static constexpr std::array<std::pair<const char*, LocTransform>, 1> names = {
      {{"affine", LocTransform::kAffine}}};
};
enum class SamplerType : uint8_t { kBilinear };
template <>
struct EnumNames<SamplerType> {
  static constexpr std::array<std::pair<const char*, SamplerType>, 1> names = {
      {{"bilinear", SamplerType::kBilinear}}};
};

struct SpatialTransformerParams {
  Shape target_shape = {0, 0};
  LocTransform transform_type = LocTransform::kAffine;
  SamplerType sampler_type = SamplerType::kBilinear;
  std::optional<bool> cudnn_off;
  static constexpr auto fields() {
    using P = SpatialTransformerParams;
    return std::tuple(
        field("target_shape", &P::target_shape, "Height and width of the output.")
            .between(0, kMaxSize),
        required_field("transform_type", &P::transform_type, "Kind of transformation."),
        required_field("sampler_type", &P::sampler_type, "Kind of interpolation."),
        field("cudnn_off", &P::cudnn_off, "Accepted for compatibility, without effect."));
  }
};

// Returns the coordinate of pixel i of `size`; a single pixel is at 0.
MX_HOST_DEVICE inline double grid_position(int64_t i, int64_t size) {
  return size > 1 ? -1 + static_cast<double>(i) * 2 / static_cast<double>(size - 1) : 0;
}

}  // namespace mxlite
