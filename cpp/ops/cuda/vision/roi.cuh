// Helpers of pooling operators over regions of interest. GPU kernels cannot throw like CPU kernels:
// if data does not have a region's image, the region's bins are NaN and get no gradient.
#pragma once
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/vision/region_gather.cuh"
#include "cpp/ops/cuda/vision/regions.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite::cuda {

using mxlite::cpu::clamp_index;

struct PoolArgs {
  const void *data, *rois, *grad;  // grad: gradient of the output
  void* out;
  int32_t* positions;  // used by ROIPooling
  DType dtype, rois_dtype;
  int64_t batch, channels, height, width, regions, out_channels, bins_h, bins_w;
  int64_t samples;
  float scale;
  bool aligned, grouped;

  MX_HOST_DEVICE int64_t outputs() const { return regions * out_channels * bins_h * bins_w; }
};

inline PoolArgs make_args(const RoiPoolingParams& p, const Shape& data, const TensorRef& rois,
                          const Shape& out, DType dtype) {
  PoolArgs a{};
  a.rois = rois.data;
  a.rois_dtype = rois.dtype;
  a.dtype = dtype;
  a.batch = data[0];
  a.channels = data[1];
  a.height = data[2];
  a.width = data[3];
  a.regions = out[0];
  a.out_channels = out[1];
  a.bins_h = out[2];
  a.bins_w = out[3];
  a.scale = p.spatial_scale;
  return a;
}

// Position of an output element: region, channel, bin.
struct Place {
  int64_t region, channel, i, j;
};
__device__ inline Place place_of(const PoolArgs& a, int64_t at) {
  const int64_t j = at % a.bins_w, i = at / a.bins_w % a.bins_h;
  const int64_t rest = at / (a.bins_w * a.bins_h);
  return {rest / a.out_channels, rest % a.out_channels, i, j};
}

// `v`: image, x1, y1, x2, y2.
template <class C>
using Region = RegionRow<C, 5>;
template <class C>
__device__ Region<C> region_of(const PoolArgs& a, int64_t r) {
  return Region<C>::read(a.rois, a.rois_dtype, r);
}

__device__ inline int64_t plane_of(const PoolArgs& a, int64_t image, const Place& p) {
  const int64_t channel = a.grouped ? (p.channel * a.bins_h + p.i) * a.bins_w + p.j : p.channel;
  return (image * a.channels + channel) * a.height * a.width;
}

inline GatherTarget target_of(const PoolArgs& a, const TensorRef& out) {
  return {out.data, out.dtype, a.batch, a.channels, a.height, a.width, a.regions};
}

struct Pixels {
  int64_t begin, end;
  __device__ bool has(int64_t line) const { return begin <= line && line < end; }
};

template <class Axis>
__device__ Rectangle rectangle_of(const Axis& y, const Axis& x) {
  return {y.pixels(0).begin, y.pixels(y.bins - 1).end, x.pixels(0).begin, x.pixels(x.bins - 1).end};
}

}  // namespace mxlite::cuda
