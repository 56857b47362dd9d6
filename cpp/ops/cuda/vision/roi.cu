// Pooling over regions of interest. What a CPU kernel raises cannot be raised here: bins of a
// region of an image that data does not have are NaN, and get no gradient.
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/vision/regions.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite {
namespace cuda {
namespace {

using mxlite::cpu::clamp_index;

struct PoolArgs {
  const void *data, *rois, *grad;  // grad: of the output
  void *out, *data_grad;
  int32_t* positions;  // ROIPooling
  DType dtype, rois_dtype;
  int64_t batch, channels, height, width, regions, out_channels, bins_h, bins_w;
  int64_t samples;
  float scale;
  bool aligned, grouped;

  MX_HOST_DEVICE int64_t outputs() const { return regions * out_channels * bins_h * bins_w; }
};

PoolArgs make_args(const RoiPoolingParams& p, const Shape& data, const TensorRef& rois,
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

// An output element: region, channel, bin.
struct Place {
  int64_t region, channel, i, j;
};
__device__ inline Place place_of(const PoolArgs& a, int64_t at) {
  const int64_t j = at % a.bins_w, i = at / a.bins_w % a.bins_h;
  const int64_t rest = at / (a.bins_w * a.bins_h);
  return {rest / a.out_channels, rest % a.out_channels, i, j};
}

// v: image, x1, y1, x2, y2.
template <class C>
using Region = RegionRow<C, 5>;
template <class C>
__device__ Region<C> region_of(const PoolArgs& a, int64_t r) {
  return Region<C>::read(a.rois, a.rois_dtype, r);
}

// ---- ROIAlign ----------------------------------------------------------------------------------

// One axis of a region: bins of `bin` length from `start`, each with `samples` points.
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

// Two lines and their weights. Points beyond the border count as zero from one pixel on, else as
// the border.
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

// The samples of a bin that lie near the image: a region may be huge.
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

// fn(y, x) for every sample of the bin; returns what the sum is divided by.
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

__device__ inline int64_t plane_of(const PoolArgs& a, int64_t image, const Place& p) {
  const int64_t channel = a.grouped ? (p.channel * a.bins_h + p.i) * a.bins_w + p.j : p.channel;
  return (image * a.channels + channel) * a.height * a.width;
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

// A thread per pixel and channel adds what every bin takes from it: the same sum in every run.
template <class C>
__device__ C weight_of_line(const Axis<C>& axis, int64_t b, int64_t line) {
  int64_t first, past;
  near_samples(axis, b, first, past);
  C sum = 0;
  for (int64_t s = first; s < past; ++s) {
    const Point<C> p = point_of(axis, b, s);
    if (!p.inside) continue;
    if (p.low == line) sum += C(1) - p.rest;
    if (p.high == line && p.high != p.low) sum += p.rest;
  }
  return sum;
}

// Bins whose samples may touch the line: [first, past).
template <class C>
__device__ void near_bins(const Axis<C>& axis, int64_t bins, int64_t line, int64_t& first,
                          int64_t& past) {
  first = 0;
  past = bins;
  if (!(axis.bin > C(0))) return;
  const C at = static_cast<C>(line);
  // Points below 0 count as line 0, and the last line takes those up to one pixel after it.
  if (line > 0)
    first = clamp_index(std::floor((at - C(1) - axis.start) / axis.bin) - C(1), int64_t{0}, bins);
  if (line < axis.size - 1)
    past = clamp_index(std::ceil((at + C(1) - axis.start) / axis.bin) + C(1), first, bins);
}

template <class C>
__global__ void roi_align_backward_kernel(int64_t n, const __grid_constant__ PoolArgs a) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t column = at % a.width, row = at / a.width % a.height;
    const int64_t plane = at / (a.width * a.height), channel = plane % a.channels;
    C sum = 0;
    for (int64_t k = 0; k < a.regions; ++k) {
      const Region<C> r = region_of<C>(a, k);
      if (!r.reads(plane / a.channels, a.batch)) continue;
      const Axis<C> x = axis_of(a, r.v[1], r.v[3], a.bins_w, a.width);
      const Axis<C> y = axis_of(a, r.v[2], r.v[4], a.bins_h, a.height);
      const int64_t count = x.samples * y.samples;
      const C scale = C(1) / static_cast<C>(count > 1 ? count : 1);
      int64_t i_first, i_past, j_first, j_past;
      near_bins(y, a.bins_h, row, i_first, i_past);
      near_bins(x, a.bins_w, column, j_first, j_past);
      for (int64_t i = i_first; i < i_past; ++i) {
        const C by_row = weight_of_line(y, i, row);
        if (by_row == C(0)) continue;
        for (int64_t j = j_first; j < j_past; ++j) {
          int64_t out_channel = channel;
          if (a.grouped) {
            if (channel % (a.bins_h * a.bins_w) != i * a.bins_w + j) continue;
            out_channel = channel / (a.bins_h * a.bins_w);
          }
          const C weight = by_row * weight_of_line(x, j, column);
          const int64_t from = ((k * a.out_channels + out_channel) * a.bins_h + i) * a.bins_w + j;
          if (weight != C(0)) sum += weight * scale * load_as<C>(a.grad, a.dtype, from);
        }
      }
    }
    store_as<C>(a.data_grad, a.dtype, at, sum);
  }
}

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
  a.data_grad = out[0].data;
  a.samples = p.sample_ratio;
  a.aligned = p.aligned;
  a.grouped = p.position_sensitive;
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    launch_items(ctx, roi_align_backward_kernel<C>, out[0].size(), out[0].size(), a);
  });
}

// ---- ROIPooling --------------------------------------------------------------------------------

struct Pixels {
  int64_t begin, end;
};
template <class C>
__device__ Pixels pixels_of(const PoolArgs& a, C from, C to, int64_t b, int64_t bins,
                            int64_t size) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const C scale = static_cast<C>(a.scale);
  const int64_t start = clamp_index(std::round(from * scale), -kFar, kFar);
  const int64_t last = clamp_index(std::round(to * scale), -kFar, kFar);
  const int64_t length = last - start + 1 > 1 ? last - start + 1 : 1;
  const C bin = static_cast<C>(length) / static_cast<C>(bins);
  const auto low = static_cast<int64_t>(std::floor(static_cast<C>(b) * bin)) + start;
  const auto high = static_cast<int64_t>(std::ceil(static_cast<C>(b + 1) * bin)) + start;
  return {low < 0 ? 0 : low < size ? low : size, high < 0 ? 0 : high < size ? high : size};
}

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
      const Pixels ys = pixels_of(a, r.v[2], r.v[4], p.i, a.bins_h, a.height);
      const Pixels xs = pixels_of(a, r.v[1], r.v[3], p.j, a.bins_w, a.width);
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

template <class C>
__global__ void roi_pooling_backward_kernel(int64_t n, const __grid_constant__ PoolArgs a) {
  const int64_t size = a.width * a.height, bins = a.bins_h * a.bins_w;
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t pixel = at % size, plane = at / size;
    C sum = 0;
    for (int64_t k = 0; k < a.regions; ++k) {
      const C image = load_any<C>(a.rois, a.rois_dtype, 5 * k);
      if (image < C(0) || static_cast<int64_t>(image) != plane / a.channels) continue;
      const int64_t first = (k * a.channels + plane % a.channels) * bins;
      for (int64_t b = first; b < first + bins; ++b)
        if (a.positions[b] == pixel) sum += load_as<C>(a.grad, a.dtype, b);
    }
    store_as<C>(a.data_grad, a.dtype, at, sum);
  }
}

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
  a.data_grad = out[0].data;
  a.positions = in[2].as<int32_t>();
  dispatch_float_compute(a.dtype, [&]<class C>(C) {
    launch_items(ctx, roi_pooling_backward_kernel<C>, out[0].size(), out[0].size(), a);
  });
}

// ---- PSROIPooling ------------------------------------------------------------------------------

struct GroupedArgs {
  PoolArgs pool;
  int64_t groups;  // along each axis: bin (i, j) reads the channel of its group
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

// Every pixel that a bin touches counts once.
template <class C>
__device__ Pixels whole_pixels(const PoolArgs& a, C from, C to, int64_t b, int64_t bins,
                               int64_t size) {
  const C scale = static_cast<C>(a.scale);
  const C start = std::round(from) * scale, length = (std::round(to) + 1) * scale - start;
  const C bin = (length > C(0.1) ? length : C(0.1)) / static_cast<C>(bins);
  return {clamp_index(std::floor(static_cast<C>(b) * bin + start), 0, size),
          clamp_index(std::ceil(static_cast<C>(b + 1) * bin + start), 0, size)};
}

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
      const Pixels ys = whole_pixels(a, r.v[2], r.v[4], p.i, a.bins_h, a.height);
      const Pixels xs = whole_pixels(a, r.v[1], r.v[3], p.j, a.bins_w, a.width);
      for (int64_t y = ys.begin; y < ys.end; ++y)
        for (int64_t x = xs.begin; x < xs.end; ++x)
          value += load_as<C>(a.data, a.dtype, plane + y * a.width + x);
      const int64_t count = (ys.end - ys.begin) * (xs.end - xs.begin);
      if (ys.end > ys.begin && xs.end > xs.begin) value /= static_cast<C>(count);
    }
    store_as<C>(a.out, a.dtype, at, value);
  }
}

template <class C>
__global__ void psroi_pooling_backward_kernel(int64_t n, const __grid_constant__ GroupedArgs g) {
  const PoolArgs& a = g.pool;
  const int64_t groups = g.groups * g.groups;
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t column = at % a.width, row = at / a.width % a.height;
    const int64_t plane = at / (a.width * a.height), channel = plane % a.channels;
    C sum = 0;
    for (int64_t k = 0; k < a.regions; ++k) {
      const Region<C> r = region_of<C>(a, k);
      if (!r.reads(plane / a.channels, a.batch)) continue;
      for (int64_t i = 0; i < a.bins_h; ++i) {
        const Pixels ys = whole_pixels(a, r.v[2], r.v[4], i, a.bins_h, a.height);
        if (row < ys.begin || row >= ys.end) continue;
        for (int64_t j = 0; j < a.bins_w; ++j) {
          if (g.group_of(i, j) != channel % groups) continue;
          const Pixels xs = whole_pixels(a, r.v[1], r.v[3], j, a.bins_w, a.width);
          if (column < xs.begin || column >= xs.end) continue;
          const int64_t from =
              ((k * a.out_channels + channel / groups) * a.bins_h + i) * a.bins_w + j;
          const int64_t count = (ys.end - ys.begin) * (xs.end - xs.begin);
          sum += load_as<C>(a.grad, a.dtype, from) / static_cast<C>(count);
        }
      }
    }
    store_as<C>(a.data_grad, a.dtype, at, sum);
  }
}

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
  g.pool.data_grad = out[0].data;
  dispatch_float_compute(g.pool.dtype, [&]<class C>(C) {
    launch_items(ctx, psroi_pooling_backward_kernel<C>, out[0].size(), out[0].size(), g);
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  ops.kernel<&cuda::roi_align>("_contrib_ROIAlign", kCUDA);
  ops.kernel<&cuda::roi_align_backward>("_roi_align_backward", kCUDA);
  ops.kernel<&cuda::roi_pooling>("ROIPooling", kCUDA);
  ops.kernel<&cuda::roi_pooling_backward>("_roi_pooling_backward", kCUDA);
  ops.kernel<&cuda::psroi_pooling>("_contrib_PSROIPooling", kCUDA);
  ops.kernel<&cuda::psroi_pooling_backward>("_psroi_pooling_backward", kCUDA);
});

}  // namespace mxlite
