// Position-sensitive ROI pooling: the average over each bin. Each bin reads a separate channel.
#include "cpp/ops/cuda/vision/roi.cuh"

namespace mxlite::cuda {
namespace {

struct GroupedArgs {
  PoolArgs pool;
  int64_t groups;  // number of groups along each axis: bin (i, j) reads the channel of its group
  __device__ int64_t group_of(int64_t i, int64_t j) const {
    return i * groups / pool.bins_h * groups + j * groups / pool.bins_w;
  }
};
template <class P>
GroupedArgs grouped_args(const P& p, const Shape& data, const TensorRef& rois, const Shape& out,
                         DType dtype) {
  RoiPoolingParams like;
  like.spatial_scale = p.spatial_scale;
  return {make_args(like, data, rois, out, dtype), p.groups()};
}

// One axis of a region: every pixel that a bin touches counts once.
template <class C>
struct TouchedAxis {
  C start, bin;
  int64_t bins, size;

  __device__ TouchedAxis(const PoolArgs& a, C from, C to, int64_t num_bins, int64_t num_lines)
      : bins(num_bins), size(num_lines) {
    const C scale = static_cast<C>(a.scale);
    start = std::round(from) * scale;
    const C length = (std::round(to) + 1) * scale - start;
    bin = (length > C(0.1) ? length : C(0.1)) / static_cast<C>(bins);
  }
  __device__ Pixels pixels(int64_t b) const {
    return {clamp_index(std::floor(static_cast<C>(b) * bin + start), 0, size),
            clamp_index(std::ceil(static_cast<C>(b + 1) * bin + start), 0, size)};
  }
  // Returns the bins [first, past) that may contain the line.
  __device__ void near(int64_t line, int64_t& first, int64_t& past) const {
    bins_around(start, bin, static_cast<C>(line), static_cast<C>(line + 1), bins, first, past);
  }
};

template <class C>
__global__ void psroi_pooling_kernel(const __grid_constant__ GroupedArgs g) {
  const PoolArgs& a = g.pool;
  for (int64_t at = global_index(); at < a.outputs(); at += grid_stride()) {
    const Place p = place_of(a, at);
    const Region<C> r = region_of<C>(a, p.region);
    C value = 0;
    if (!r.ignored() && !r.usable(a.batch)) {
      value = std::numeric_limits<C>::quiet_NaN();
    } else if (!r.ignored()) {
      const int64_t channel = p.channel * g.groups * g.groups + g.group_of(p.i, p.j);
      const int64_t plane = (r.image() * a.channels + channel) * a.height * a.width;
      const Pixels ys = TouchedAxis<C>(a, r.v[2], r.v[4], a.bins_h, a.height).pixels(p.i);
      const Pixels xs = TouchedAxis<C>(a, r.v[1], r.v[3], a.bins_w, a.width).pixels(p.j);
      for (int64_t y = ys.begin; y < ys.end; ++y)
        for (int64_t x = xs.begin; x < xs.end; ++x)
          value += load_as<C>(a.data, a.dtype, plane + y * a.width + x);
      const int64_t count = (ys.end - ys.begin) * (xs.end - xs.begin);
      if (ys.end > ys.begin && xs.end > xs.begin) value /= static_cast<C>(count);
    }
    store_as<C>(a.out, a.dtype, at, value);
  }
}

template <class Acc>
struct GroupedGather {
  using C = Acc;
  using Entry = int64_t;  // index of a region
  static constexpr int kChannels = 8;
  GroupedArgs g;

  __device__ bool touches(int64_t k, int64_t image, int64_t, const Rectangle& tile,
                          Entry& entry) const {
    const PoolArgs& a = g.pool;
    const Region<C> r = region_of<C>(a, k);
    if (!r.reads(image, a.batch)) return false;
    entry = k;
    return rectangle_of(TouchedAxis<C>(a, r.v[2], r.v[4], a.bins_h, a.height),
                        TouchedAxis<C>(a, r.v[1], r.v[3], a.bins_w, a.width))
        .meets(tile);
  }

  __device__ void add(Entry k, int64_t first_channel, int num_channels, const Pixel& at,
                      C (&sums)[kChannels]) const {
    const PoolArgs& a = g.pool;
    const Region<C> r = region_of<C>(a, k);
    const TouchedAxis<C> y(a, r.v[2], r.v[4], a.bins_h, a.height);
    const TouchedAxis<C> x(a, r.v[1], r.v[3], a.bins_w, a.width);
    const int64_t groups = g.groups * g.groups;
    int64_t i_first, i_past, j_first, j_past;
    y.near(at.row, i_first, i_past);
    x.near(at.column, j_first, j_past);
    for (int64_t i = i_first; i < i_past; ++i) {
      const Pixels ys = y.pixels(i);
      if (!ys.has(at.row)) continue;
      for (int64_t j = j_first; j < j_past; ++j) {
        const Pixels xs = x.pixels(j);
        if (!xs.has(at.column)) continue;
        const int64_t group = g.group_of(i, j);
        const int64_t count = (ys.end - ys.begin) * (xs.end - xs.begin);
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          const int64_t channel = first_channel + c;
          if (c >= num_channels || channel % groups != group) continue;
          const int64_t from =
              ((k * a.out_channels + channel / groups) * a.bins_h + i) * a.bins_w + j;
          sums[c] += load_as<C>(a.grad, a.dtype, from) / static_cast<C>(count);
        }
      }
    }
  }
};

void psroi_pooling(KernelContext& ctx, const PsRoiPoolingParams& p, Inputs in, Outputs out) {
  GroupedArgs g = grouped_args(p, in[0].shape, in[1], out[0].shape, in[0].dtype);
  g.pool.data = in[0].data;
  g.pool.out = out[0].data;
  dispatch_float_compute(g.pool.dtype, [&]<class C>(C) {
    launch_items(ctx, psroi_pooling_kernel<C>, g.pool.outputs(), g);
  });
}

void psroi_pooling_backward(KernelContext& ctx, const RoiGradParams<PsRoiPoolingParams>& p,
                            Inputs in, Outputs out) {
  GroupedArgs g = grouped_args(p, out[0].shape, in[1], in[0].shape, in[0].dtype);
  g.pool.grad = in[0].data;
  dispatch_float_compute(g.pool.dtype, [&]<class C>(C) {
    launch_gather(ctx, target_of(g.pool, out[0]), GroupedGather<C>{g});
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::psroi_pooling>("_contrib_PSROIPooling");
  ops.cuda_kernel<&cuda::psroi_pooling_backward>("_psroi_pooling_backward");
});

}  // namespace mxlite::cuda
