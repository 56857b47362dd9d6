// ROIAlign of rotated regions.
#include "cpp/ops/cpu/vision/rotated_grid.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/vision/region_gather.cuh"
#include "cpp/ops/cuda/vision/regions.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite::cuda {
namespace {

using mxlite::cpu::Neighbours;
using mxlite::cpu::RotatedGrid;

struct RotatedArgs {
  mxlite::cpu::RotatedBins bins;
  int64_t batch, channels, regions;
  const void *data, *rois;  // data: gradient of the output in backward
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

template <class Acc>
struct RotatedGather {
  using C = Acc;
  using Entry = int64_t;  // index of a region
  static constexpr int kChannels = 8;
  RotatedArgs a;

  __device__ bool touches(int64_t r, int64_t image, int64_t, const Rectangle& tile,
                          Entry& entry) const {
    const auto region = RegionRow<C, 6>::read(a.rois, a.rois_dtype, r);
    if (!region.reads(image, a.batch)) return false;
    const RotatedGrid<C> grid(a.bins, region.v);
    entry = r;
    // Computes half of the extents of a rotated rectangle; start_h and start_w are its negative
    // half sides.
    const C cosine = std::abs(grid.cosine), sine = std::abs(grid.sine);
    const C half_y = -grid.start_h * cosine - grid.start_w * sine;
    const C half_x = -grid.start_w * cosine - grid.start_h * sine;
    Rectangle own;
    lines_around(grid.centre_y, half_y, grid.height, own.top, own.bottom);
    lines_around(grid.centre_x, half_x, grid.width, own.left, own.right);
    return own.meets(tile);
  }

  __device__ void add(Entry r, int64_t first_channel, int num_channels, const Pixel& at,
                      C (&sums)[kChannels]) const {
    const auto region = RegionRow<C, 6>::read(a.rois, a.rois_dtype, r);
    const RotatedGrid<C> grid(a.bins, region.v);
    const auto around = grid.around(at.row, at.column);
    const int64_t pixel = at.row * a.bins.width + at.column;
    int64_t i_first, i_past, j_first, j_past;
    grid.near_rows(around, a.bins.rows, i_first, i_past);
    grid.near_columns(around, a.bins.columns, j_first, j_past);
    for (int64_t i = i_first; i < i_past; ++i)
      for (int64_t j = j_first; j < j_past; ++j) {
        C grads[kChannels];
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          const int64_t plane = r * a.channels + first_channel + (c < num_channels ? c : 0);
          const int64_t from = plane * a.bins_of_region() + i * a.bins.columns + j;
          grads[c] = load_as<C>(a.data, a.dtype, from) / grid.count();
        }
        grid.for_points_around(around, i, j, [&](const Neighbours<C>& p) {
          for (int q = 0; q < 4; ++q) {
            if (p.at[q] != pixel) continue;
#pragma unroll
            for (int c = 0; c < kChannels; ++c) sums[c] += p.weight[q] * grads[c];
          }
        });
      }
  }

 private:
  // Returns the lines [first, past) that points within `half` of `centre` may touch.
  __device__ static void lines_around(C centre, C half, int64_t size, int64_t& first,
                                      int64_t& past) {
    const C slack = C(2) + C(1e-5) * (std::abs(centre) + half);
    first = mxlite::cpu::clamp_index(std::floor(centre - half - slack), int64_t{0}, size - 1);
    past = mxlite::cpu::clamp_index(std::ceil(centre + half + slack) + C(1), int64_t{0}, size);
  }
};

void rotated_align(KernelContext& ctx, const RotatedRoiAlignParams& p, Inputs in, Outputs out) {
  const RotatedArgs a(p, in[0].shape, in[0], in[1]);
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    launch_items(ctx, rotated_align_kernel<C>, out[0].size(), out[0].size(), a, out[0].data);
  });
}

// `in`: output_grad, rois.
void rotated_align_backward(KernelContext& ctx, const RoiGradParams<RotatedRoiAlignParams>& p,
                            Inputs in, Outputs out) {
  const RotatedArgs a(p, p.data_shape, in[0], in[1]);
  const GatherTarget target{out[0].data,   out[0].dtype, a.batch,  a.channels,
                            a.bins.height, a.bins.width, a.regions};
  dispatch_float_compute(a.dtype,
                         [&]<class C>(C) { launch_gather(ctx, target, RotatedGather<C>{a}); });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::rotated_align>("_contrib_RROIAlign");
  ops.cuda_kernel<&cuda::rotated_align_backward>("_rotated_roi_align_backward");
});

}  // namespace mxlite::cuda
