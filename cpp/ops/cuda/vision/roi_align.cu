// ROIAlign: the average of bilinear samples over each bin of a region.
#include "cpp/ops/cuda/vision/roi.cuh"

namespace mxlite::cuda {
namespace {

// One axis of a region: bins of length `bin`, starting at `start`, each with `samples` points.
template <class C>
struct Axis {
  C start, bin;
  int64_t samples, size;
};
template <class C>
__device__ Axis<C> axis_of(const PoolArgs& a, C from, C to, int64_t bins, int64_t size) {
  const C scale = static_cast<C>(a.scale), offset = a.aligned ? C(0.5) : C(0);
  const C start = from * scale - offset;
  C length = to * scale - offset - start;
  if (!a.aligned) length = length > C(1) ? length : C(1);
  const C bin = length / static_cast<C>(bins);
  const int64_t samples =
      a.samples > 0 ? a.samples : clamp_index(std::ceil(bin), int64_t{0}, int64_t{1} << 30);
  return {start, bin, samples, size};
}

// The two lines that a sample interpolates. A sample more than one pixel outside of the image is
// zero; a sample that is less far outside is moved to the border.
template <class C>
struct Point {
  int64_t low, high;
  C rest;
  bool inside;
};
template <class C>
__device__ Point<C> point_of(const Axis<C>& axis, int64_t b, int64_t sample) {
  C at = axis.start + static_cast<C>(b) * axis.bin +
         (static_cast<C>(sample) + C(0.5)) * axis.bin / static_cast<C>(axis.samples);
  if (at < C(-1) || at > static_cast<C>(axis.size)) return {0, 0, C(0), false};
  at = at > C(0) ? at : C(0);
  const int64_t floor = static_cast<int64_t>(at);
  const int64_t low = floor < axis.size - 1 ? floor : axis.size - 1;
  const bool last = low == axis.size - 1;
  return {low, last ? low : low + 1, last ? C(0) : at - static_cast<C>(low), true};
}

// Returns the samples [first, past) of a bin that may lie inside the image; skips the other samples
// of a huge region.
template <class C>
__device__ void near_samples(const Axis<C>& axis, int64_t b, int64_t& first, int64_t& past) {
  const C step = axis.bin / static_cast<C>(axis.samples);
  first = 0;
  past = axis.samples;
  if (!(step > C(0))) return;
  const C origin = axis.start + static_cast<C>(b) * axis.bin;
  first = clamp_index(std::floor((C(-1) - origin) / step) - C(1), int64_t{0}, axis.samples);
  past = clamp_index(std::ceil((static_cast<C>(axis.size) - origin) / step) + C(1), first,
                     axis.samples);
}

// Calls fn(y, x) for every sample of the bin; returns the divisor of the sum.
template <class C, class Fn>
__device__ C for_samples(const PoolArgs& a, const Region<C>& r, const Place& p, Fn&& fn) {
  const Axis<C> x = axis_of(a, r.v[1], r.v[3], a.bins_w, a.width);
  const Axis<C> y = axis_of(a, r.v[2], r.v[4], a.bins_h, a.height);
  int64_t y_first, y_past, x_first, x_past;
  near_samples(y, p.i, y_first, y_past);
  near_samples(x, p.j, x_first, x_past);
  for (int64_t sy = y_first; sy < y_past; ++sy) {
    const Point<C> py = point_of(y, p.i, sy);
    if (!py.inside) continue;
    for (int64_t sx = x_first; sx < x_past; ++sx) {
      const Point<C> px = point_of(x, p.j, sx);
      if (px.inside) fn(py, px);
    }
  }
  const int64_t count = x.samples * y.samples;
  return static_cast<C>(count > 1 ? count : 1);
}

template <class C>
__global__ void roi_align_kernel(const __grid_constant__ PoolArgs a) {
  for (int64_t at = global_index(); at < a.outputs(); at += grid_stride()) {
    const Place p = place_of(a, at);
    const Region<C> r = region_of<C>(a, p.region);
    C value = 0;
    if (!r.ignored() && !r.usable(a.batch)) {
      value = std::numeric_limits<C>::quiet_NaN();
    } else if (!r.ignored()) {
      const int64_t plane = plane_of(a, r.image(), p);
      C sum = 0;
      const auto pixel = [&](int64_t y, int64_t x) {
        return load_as<C>(a.data, a.dtype, plane + y * a.width + x);
      };
      const C count = for_samples<C>(a, r, p, [&](const Point<C>& y, const Point<C>& x) {
        const C top = (C(1) - x.rest) * pixel(y.low, x.low) + x.rest * pixel(y.low, x.high);
        const C bottom = (C(1) - x.rest) * pixel(y.high, x.low) + x.rest * pixel(y.high, x.high);
        sum += (C(1) - y.rest) * top + y.rest * bottom;
      });
      value = sum / count;
    }
    store_as<C>(a.out, a.dtype, at, value);
  }
}

// Returns the sum of the weights with which the samples of a bin read a line.
template <class C>
__device__ C weight_of_line(const Axis<C>& axis, int64_t b, int64_t line) {
  int64_t first, past;
  near_samples(axis, b, first, past);
  // Skips samples a pixel or more away. Border lines also get the samples outside of the image.
  const C step = axis.bin / static_cast<C>(axis.samples);
  if (step > C(0)) {
    const C from = static_cast<C>(line) - axis.start - static_cast<C>(b) * axis.bin;
    if (line > 0) first = clamp_index(std::floor((from - C(1)) / step) - C(1), first, past);
    if (line < axis.size - 1)
      past = clamp_index(std::ceil((from + C(1)) / step) + C(1), first, past);
  }
  C sum = 0;
  for (int64_t s = first; s < past; ++s) {
    const Point<C> p = point_of(axis, b, s);
    if (!p.inside) continue;
    if (p.low == line) sum += C(1) - p.rest;
    if (p.high == line && p.high != p.low) sum += p.rest;
  }
  return sum;
}

// Returns the bins [first, past) whose samples may touch the line.
template <class C>
__device__ void near_bins(const Axis<C>& axis, int64_t bins, int64_t line, int64_t& first,
                          int64_t& past) {
  first = 0;
  past = bins;
  if (!(axis.bin > C(0))) return;
  const C at = static_cast<C>(line);
  // Samples outside of the image are moved to line 0 or to the last line.
  if (line > 0)
    first = clamp_index(std::floor((at - C(1) - axis.start) / axis.bin) - C(1), int64_t{0}, bins);
  if (line < axis.size - 1)
    past = clamp_index(std::ceil((at + C(1) - axis.start) / axis.bin) + C(1), first, bins);
}

// Returns the lines [first, past) that the samples of all bins may touch.
template <class C>
__device__ void lines_of(const Axis<C>& axis, int64_t bins, int64_t& first, int64_t& past) {
  first = 0;
  past = axis.size;
  if (!(axis.bin > C(0))) return;
  const C end = axis.start + static_cast<C>(bins) * axis.bin;
  first = clamp_index(std::floor(axis.start) - C(1), int64_t{0}, axis.size - 1);
  past = clamp_index(std::ceil(end) + C(2), int64_t{0}, axis.size);
}

template <class Acc>
struct AlignGather {
  using C = Acc;
  using Entry = int64_t;  // index of a region
  static constexpr int kChannels = 8;
  PoolArgs a;

  __device__ bool touches(int64_t k, int64_t image, int64_t, const Rectangle& tile,
                          Entry& entry) const {
    const Region<C> r = region_of<C>(a, k);
    if (!r.reads(image, a.batch)) return false;
    Rectangle own;
    lines_of(axis_of(a, r.v[2], r.v[4], a.bins_h, a.height), a.bins_h, own.top, own.bottom);
    lines_of(axis_of(a, r.v[1], r.v[3], a.bins_w, a.width), a.bins_w, own.left, own.right);
    entry = k;
    return own.meets(tile);
  }

  __device__ void add(Entry k, int64_t first_channel, int num_channels, const Pixel& at,
                      C (&sums)[kChannels]) const {
    const Region<C> r = region_of<C>(a, k);
    const Axis<C> x = axis_of(a, r.v[1], r.v[3], a.bins_w, a.width);
    const Axis<C> y = axis_of(a, r.v[2], r.v[4], a.bins_h, a.height);
    const int64_t count = x.samples * y.samples, bins = a.bins_h * a.bins_w;
    const C scale = C(1) / static_cast<C>(count > 1 ? count : 1);
    int64_t i_first, i_past, j_first, j_past;
    near_bins(y, a.bins_h, at.row, i_first, i_past);
    near_bins(x, a.bins_w, at.column, j_first, j_past);
    for (int64_t i = i_first; i < i_past; ++i) {
      const C by_row = weight_of_line(y, i, at.row);
      if (by_row == C(0)) continue;
      for (int64_t j = j_first; j < j_past; ++j) {
        const C weight = by_row * weight_of_line(x, j, at.column);
        if (weight == C(0)) continue;
        const int64_t bin = i * a.bins_w + j;
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
          if (c >= num_channels) break;
          int64_t channel = first_channel + c;
          if (a.grouped) {
            if (channel % bins != bin) continue;
            channel /= bins;
          }
          const int64_t from = (k * a.out_channels + channel) * bins + bin;
          sums[c] += weight * scale * load_as<C>(a.grad, a.dtype, from);
        }
      }
    }
  }
};

void roi_align(KernelContext& ctx, const RoiAlignParams& p, Inputs in, Outputs out) {
  PoolArgs a = make_args(p, in[0].shape, in[1], out[0].shape, in[0].dtype);
  a.data = in[0].data;
  a.out = out[0].data;
  a.samples = p.sample_ratio;
  a.aligned = p.aligned;
  a.grouped = p.position_sensitive;
  dispatch_float_compute(
      a.dtype, [&]<class C>(C) { launch_items(ctx, roi_align_kernel<C>, a.outputs(), a); });
}

void roi_align_backward(KernelContext& ctx, const RoiGradParams<RoiAlignParams>& p, Inputs in,
                        Outputs out) {
  PoolArgs a = make_args(p, out[0].shape, in[1], in[0].shape, in[0].dtype);
  a.grad = in[0].data;
  a.samples = p.sample_ratio;
  a.aligned = p.aligned;
  a.grouped = p.position_sensitive;
  dispatch_float_compute(
      a.dtype, [&]<class C>(C) { launch_gather(ctx, target_of(a, out[0]), AlignGather<C>{a}); });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::roi_align>("_contrib_ROIAlign");
  ops.cuda_kernel<&cuda::roi_align_backward>("_roi_align_backward");
});

}  // namespace mxlite::cuda
