// ROI pooling: the maximum over each bin of a region.
#include "cpp/ops/cuda/vision/roi.cuh"

namespace mxlite::cuda {
namespace {

// One axis of a region: its bins, in whole pixels.
template <class C>
struct PooledAxis {
  int64_t start;
  C bin;  // in pixels
  int64_t bins, size;

  __device__ PooledAxis(const PoolArgs& a, C from, C to, int64_t num_bins, int64_t num_lines)
      : bins(num_bins), size(num_lines) {
    constexpr int64_t kFar = int64_t{1} << 40;
    const C scale = static_cast<C>(a.scale);
    start = clamp_index(std::round(from * scale), -kFar, kFar);
    const int64_t last = clamp_index(std::round(to * scale), -kFar, kFar);
    const int64_t length = last - start + 1 > 1 ? last - start + 1 : 1;
    bin = static_cast<C>(length) / static_cast<C>(bins);
  }
  __device__ Pixels pixels(int64_t b) const {
    const auto low = static_cast<int64_t>(std::floor(static_cast<C>(b) * bin)) + start;
    const auto high = static_cast<int64_t>(std::ceil(static_cast<C>(b + 1) * bin)) + start;
    return {low < 0 ? 0 : low < size ? low : size, high < 0 ? 0 : high < size ? high : size};
  }
  // Returns the bins [first, past) that may contain the line.
  __device__ void near(int64_t line, int64_t& first, int64_t& past) const {
    const C at = static_cast<C>(line - start);
    bins_around(C(0), bin, at, at + C(1), bins, first, past);
  }
};
template <class C>
__global__ void roi_pooling_kernel(const __grid_constant__ PoolArgs a) {
  for (int64_t at = global_index(); at < a.outputs(); at += grid_stride()) {
    const Place p = place_of(a, at);
    const Region<C> r = region_of<C>(a, p.region);
    C best = 0;
    int64_t position = -1;
    if (!r.ignored() && !r.usable(a.batch)) {
      best = std::numeric_limits<C>::quiet_NaN();
    } else if (!r.ignored()) {
      const int64_t plane = plane_of(a, r.image(), p);
      const Pixels ys = PooledAxis<C>(a, r.v[2], r.v[4], a.bins_h, a.height).pixels(p.i);
      const Pixels xs = PooledAxis<C>(a, r.v[1], r.v[3], a.bins_w, a.width).pixels(p.j);
      for (int64_t y = ys.begin; y < ys.end; ++y)
        for (int64_t x = xs.begin; x < xs.end; ++x) {
          const C v = load_as<C>(a.data, a.dtype, plane + y * a.width + x);
          if (position < 0 || v > best || (v != v && best == best)) {
            best = v;
            position = y * a.width + x;
          }
        }
    }
    store_as<C>(a.out, a.dtype, at, best);
    a.positions[at] = static_cast<int32_t>(position);
  }
}

template <class Acc>
struct MaxGather {
  using C = Acc;
  using Entry = int64_t;  // index of a region
  static constexpr int kChannels = 8;
  PoolArgs a;

  __device__ bool touches(int64_t k, int64_t image, int64_t, const Rectangle& tile,
                          Entry& entry) const {
    const Region<C> r = region_of<C>(a, k);
    if (!r.reads(image, a.batch)) return false;
    entry = k;
    return rectangle_of(PooledAxis<C>(a, r.v[2], r.v[4], a.bins_h, a.height),
                        PooledAxis<C>(a, r.v[1], r.v[3], a.bins_w, a.width))
        .meets(tile);
  }

  __device__ void add(Entry k, int64_t first_channel, int num_channels, const Pixel& at,
                      C (&sums)[kChannels]) const {
    const Region<C> r = region_of<C>(a, k);
    const int64_t pixel = at.row * a.width + at.column, bins = a.bins_h * a.bins_w;
    int64_t i_first, i_past, j_first, j_past;
    PooledAxis<C>(a, r.v[2], r.v[4], a.bins_h, a.height).near(at.row, i_first, i_past);
    PooledAxis<C>(a, r.v[1], r.v[3], a.bins_w, a.width).near(at.column, j_first, j_past);
    for (int64_t i = i_first; i < i_past; ++i)
      for (int64_t j = j_first; j < j_past; ++j) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          if (c >= num_channels) break;
          const int64_t from = (k * a.channels + first_channel + c) * bins + i * a.bins_w + j;
          if (a.positions[from] == pixel) sums[c] += load_as<C>(a.grad, a.dtype, from);
        }
      }
  }
};

void roi_pooling(KernelContext& ctx, const RoiPoolingParams& p, Inputs in, Outputs out) {
  PoolArgs a = make_args(p, in[0].shape, in[1], out[0].shape, in[0].dtype);
  a.data = in[0].data;
  a.out = out[0].data;
  a.positions = out[1].as<int32_t>();
  dispatch_float_compute(
      a.dtype, [&]<class C>(C) { launch_items(ctx, roi_pooling_kernel<C>, a.outputs(), a); });
}

void roi_pooling_backward(KernelContext& ctx, const RoiGradParams<RoiPoolingParams>& p, Inputs in,
                          Outputs out) {
  PoolArgs a = make_args(p, p.data_shape, in[1], in[0].shape, in[0].dtype);
  a.grad = in[0].data;
  a.positions = in[2].as<int32_t>();
  dispatch_float_compute(
      a.dtype, [&]<class C>(C) { launch_gather(ctx, target_of(a, out[0]), MaxGather<C>{a}); });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::roi_pooling>("ROIPooling");
  ops.cuda_kernel<&cuda::roi_pooling_backward>("_roi_pooling_backward");
});

}  // namespace mxlite::cuda
