// ROIAlign over regions that are turned. A thread owns a bin, backward a plane of the gradient.
#include "cpp/ops/cpu/vision/rotated_grid.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/sums.h"
#include "cpp/ops/cuda/vision/regions.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace cuda {
namespace {

using mxlite::cpu::Neighbours;
using mxlite::cpu::RotatedGrid;

struct RotatedArgs {
  mxlite::cpu::RotatedBins bins;
  int64_t batch, channels, regions;
  const void *data, *rois;  // data: of the output's gradient in backward
  DType dtype, rois_dtype;

  RotatedArgs(const RotatedRoiAlignParams& p, const Shape& data_shape, const TensorRef& from,
              const TensorRef& regions_of)
      : bins{p.pooled_size[0], p.pooled_size[1], p.sampling_ratio,
             data_shape[2],    data_shape[3],    p.spatial_scale},
        batch(data_shape[0]),
        channels(data_shape[1]),
        regions(regions_of.shape[0]),
        data(from.data),
        rois(regions_of.data),
        dtype(from.dtype),
        rois_dtype(regions_of.dtype) {}
  MX_HOST_DEVICE int64_t plane() const { return bins.height * bins.width; }
  MX_HOST_DEVICE int64_t bins_of_region() const { return bins.rows * bins.columns; }
};

template <class C>
__global__ void rotated_align_kernel(int64_t n, const __grid_constant__ RotatedArgs a, void* out) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t bin = at % a.bins_of_region(), item = at / a.bins_of_region();
    const auto region = RegionRow<C, 6>::read(a.rois, a.rois_dtype, item / a.channels);
    C value = 0;
    if (!region.ignored() && !region.usable(a.batch)) {
      value = std::numeric_limits<C>::quiet_NaN();
    } else if (!region.ignored()) {
      const RotatedGrid<C> grid(a.bins, region.v);
      const int64_t first = (region.image() * a.channels + item % a.channels) * a.plane();
      C sum = 0;
      grid.for_points(bin / a.bins.columns, bin % a.bins.columns, [&](const Neighbours<C>& p) {
        for (int q = 0; q < 4; ++q)
          sum += p.weight[q] * load_as<C>(a.data, a.dtype, first + p.at[q]);
      });
      value = sum / grid.count();
    }
    store_as<C>(out, a.dtype, at, value);
  }
}

// Adds in the order of regions and bins, so that runs agree.
template <class C>
__global__ void rotated_align_backward_kernel(int64_t planes, const __grid_constant__ RotatedArgs a,
                                              C* sums) {
  for (int64_t at = global_index(); at < planes; at += grid_stride()) {
    C* const own = sums + at * a.plane();
    for (int64_t r = 0; r < a.regions; ++r) {
      const auto region = RegionRow<C, 6>::read(a.rois, a.rois_dtype, r);
      if (!region.reads(at / a.channels, a.batch)) continue;
      const RotatedGrid<C> grid(a.bins, region.v);
      const int64_t first = (r * a.channels + at % a.channels) * a.bins_of_region();
      for (int64_t bin = 0; bin < a.bins_of_region(); ++bin) {
        const C grad = load_as<C>(a.data, a.dtype, first + bin) / grid.count();
        grid.for_points(bin / a.bins.columns, bin % a.bins.columns,
                        [&](const Neighbours<C>& p) { p.scatter(own, grad); });
      }
    }
  }
}

void rotated_align(KernelContext& ctx, const RotatedRoiAlignParams& p, Inputs in, Outputs out) {
  const RotatedArgs a(p, in[0].shape, in[0], in[1]);
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    launch_items(ctx, rotated_align_kernel<C>, out[0].size(), out[0].size(), a, out[0].data);
  });
}

// in: output_grad, rois.
void rotated_align_backward(KernelContext& ctx, const RoiGradParams<RotatedRoiAlignParams>& p,
                            Inputs in, Outputs out) {
  const RotatedArgs a(p, p.data_shape, in[0], in[1]);
  with_sums(ctx, out[0], [&]<class C>(C* sums) {
    const int64_t planes = a.batch * a.channels;
    launch_items(ctx, rotated_align_backward_kernel<C>, planes, planes, a, sums);
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<&cuda::rotated_align>("_contrib_RROIAlign", DeviceType::kCUDA);
  ops.kernel<&cuda::rotated_align_backward>("_rotated_roi_align_backward", DeviceType::kCUDA);
});

}  // namespace mxlite
