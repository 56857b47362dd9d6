// One thread per output element, and in the backward direction one per element of data, which asks
// all windows over it for its part: no atomics, the same result in every run.
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/extreme.cuh"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace cuda {
namespace {

struct Geometry {
  SpatialDims data, output;
  SpatialWindow window;
  bool channels_last, includes_pad;
  PoolType type;
  int exponent;

  __device__ __forceinline__ int64_t step(const SpatialDims& d) const {
    return channels_last ? d.channels : 1;
  }
};

Geometry make_geometry(const PoolingParams& p, const Shape& data, const Shape& output) {
  Geometry g;
  g.channels_last = p.channels_last();
  g.data = spatial_dims(data, g.channels_last);
  g.output = spatial_dims(output, g.channels_last);
  g.window = p.window(data);
  g.includes_pad = p.includes_pad();
  g.type = p.pool_type;
  g.exponent = p.pool_type == PoolType::kLp ? static_cast<int>(*p.p_value) : 1;
  return g;
}

// Element i of an array of dims d: its position, and where its plane (one image and channel)
// begins in data and output.
struct Place {
  int64_t at[3], data_plane, output_plane;
};
__device__ __forceinline__ Place place_of(const Geometry& g, const SpatialDims& d, int64_t i) {
  Place p;
  int64_t c = 0;
  if (g.channels_last) {
    c = i % d.channels;
    i /= d.channels;
  }
  p.at[2] = i % d.size[2];
  i /= d.size[2];
  p.at[1] = i % d.size[1];
  i /= d.size[1];
  p.at[0] = i % d.size[0];
  i /= d.size[0];  // planes, or images in channels-last arrays
  const int64_t in_pixels = g.data.size[0] * g.data.size[1] * g.data.size[2];
  const int64_t out_pixels = g.output.size[0] * g.output.size[1] * g.output.size[2];
  p.data_plane = g.channels_last ? i * in_pixels * d.channels + c : i * in_pixels;
  p.output_plane = g.channels_last ? i * out_pixels * d.channels + c : i * out_pixels;
  return p;
}

// The part of one window that lies in data, and its element count for averages.
struct Window {
  int64_t begin[3], end[3], count;
};
__device__ __forceinline__ Window window_at(const Geometry& g, const int64_t (&at)[3]) {
  Window w;
  w.count = 1;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int64_t start = at[i] * g.window.stride[i] - g.window.pad[i];
    const int64_t limit = g.data.size[i] + g.window.pad[i], full = start + g.window.kernel[i];
    const int64_t padded_end = full < limit ? full : limit;
    w.begin[i] = start > 0 ? start : 0;
    w.end[i] = padded_end < g.data.size[i] ? padded_end : g.data.size[i];
    const int64_t inside = w.end[i] > w.begin[i] ? w.end[i] - w.begin[i] : 0;
    w.count *= g.includes_pad ? padded_end - start : inside;
  }
  return w;
}

// fn(pixel) in row-major order, every `step`-th from `first` on.
template <class F>
__device__ __forceinline__ void for_pixels(const Geometry& g, const Window& w, F&& fn,
                                           int64_t first = 0, int64_t step = 1) {
  const int64_t width = w.end[2] - w.begin[2], height = w.end[1] - w.begin[1];
  if (step == 1) {
    for (int64_t d = w.begin[0]; d < w.end[0]; ++d)
      for (int64_t h = w.begin[1]; h < w.end[1]; ++h)
        for (int64_t x = w.begin[2]; x < w.end[2]; ++x)
          fn((d * g.data.size[1] + h) * g.data.size[2] + x);
    return;
  }
  if (width <= 0 || height <= 0) return;
  const int64_t all = (w.end[0] - w.begin[0]) * height * width;
  for (int64_t i = first; i < all; i += step)
    fn(((w.begin[0] + i / (width * height)) * g.data.size[1] + w.begin[1] + i / width % height) *
           g.data.size[2] +
       w.begin[2] + i % width);
}

template <class C>
__device__ __forceinline__ C power(C v, int p) {
  return p == 1 ? v : p == 2 ? v * v : v * v * v;
}
template <class C>
__device__ __forceinline__ C root(C v, int p) {
  if constexpr (std::is_integral_v<C>)
    return p == 1 ? v : static_cast<C>(p == 2 ? sqrt(double(v)) : cbrt(double(v)));
  else
    return p == 1 ? v : p == 2 ? std::sqrt(v) : std::cbrt(v);
}

// `share` threads work on one window and meet through shuffles: 1, or a warp for large windows.
template <class C, int share>
__global__ void pool(int64_t n, const __grid_constant__ Geometry g, DType dtype, const void* x,
                     void* y) {
  const int64_t step = g.step(g.data), lane = share == 1 ? 0 : threadIdx.x % share;
  for (int64_t i = global_index() / share; i < n; i += grid_stride() / share) {
    const Place p = place_of(g, g.output, i);
    const Window w = window_at(g, p.at);
    if (g.type == PoolType::kMax) {
      Extreme<C> best;
      for_pixels(
          g, w, [&](int64_t k) { best.take(load_as<C>(x, dtype, p.data_plane + k * step), k); },
          lane, share);
      if constexpr (share > 1) best.join_warp();
      if (lane == 0) store_as<C>(y, dtype, i, best.value);
    } else {
      C sum = C(0);
      for_pixels(
          g, w,
          [&](int64_t k) {
            sum += power(load_as<C>(x, dtype, p.data_plane + k * step), g.exponent);
          },
          lane, share);
      if constexpr (share > 1) sum = warp_sum(sum);
      if (g.type == PoolType::kAvg && w.count > 0) sum /= static_cast<C>(w.count);
      if (lane == 0) store_as<C>(y, dtype, i, root(sum, g.exponent));
    }
  }
}

// Maxima whose windows do not overlap: every window writes its own largest element's gradient into
// an array of zeros.
template <class C, int share>
__global__ void scatter_max(int64_t n, const __grid_constant__ Geometry g, DType dtype,
                            const void* grad, const void* x, void* out) {
  const int64_t step = g.step(g.data), lane = share == 1 ? 0 : threadIdx.x % share;
  for (int64_t i = global_index() / share; i < n; i += grid_stride() / share) {
    const Place p = place_of(g, g.output, i);
    Extreme<C> best;
    for_pixels(
        g, window_at(g, p.at),
        [&](int64_t k) { best.take(load_as<C>(x, dtype, p.data_plane + k * step), k); }, lane,
        share);
    if constexpr (share > 1) best.join_warp();
    if (lane == 0 && best.at >= 0)
      store_as<C>(out, dtype, p.data_plane + best.at * step, load_as<C>(grad, dtype, i));
  }
}

// The windows that hold position `at`.
__device__ __forceinline__ void windows_over(const Geometry& g, const int64_t (&at)[3],
                                             int64_t (&begin)[3], int64_t (&end)[3]) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const int64_t from = at[i] + g.window.pad[i] - g.window.kernel[i];
    begin[i] = from < 0 ? 0 : from / g.window.stride[i] + 1;
    const int64_t last = (at[i] + g.window.pad[i]) / g.window.stride[i] + 1;
    end[i] = last < g.output.size[i] ? last : g.output.size[i];
  }
}

template <class C>
__global__ void gather(int64_t n, const __grid_constant__ Geometry g, DType dtype, const void* grad,
                       const void* x, const void* y, void* out) {
  const int64_t step = g.step(g.data);
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place p = place_of(g, g.data, i);
    const int64_t pixel = (p.at[0] * g.data.size[1] + p.at[1]) * g.data.size[2] + p.at[2];
    int64_t begin[3], end[3], o[3];
    windows_over(g, p.at, begin, end);
    C sum = C(0);
    for (o[0] = begin[0]; o[0] < end[0]; ++o[0])
      for (o[1] = begin[1]; o[1] < end[1]; ++o[1])
        for (o[2] = begin[2]; o[2] < end[2]; ++o[2]) {
          const int64_t at =
              p.output_plane + ((o[0] * g.output.size[1] + o[1]) * g.output.size[2] + o[2]) * step;
          const Window w = window_at(g, o);
          C v = load_as<C>(grad, dtype, at);
          if (g.type == PoolType::kMax) {
            Extreme<C> best;
            for_pixels(g, w, [&](int64_t k) {
              best.take(load_as<C>(x, dtype, p.data_plane + k * step), k);
            });
            if (best.at != pixel) v = C(0);
          } else if (g.type == PoolType::kAvg) {
            v /= static_cast<C>(w.count > 1 ? w.count : 1);
          } else if (g.exponent > 1) {
            const C base = load_as<C>(y, dtype, at);
            const C ratio = base == C(0) ? C(0) : load_as<C>(x, dtype, i) / base;
            v *= g.exponent == 2 ? ratio : ratio * ratio;
          }
          sum += v;
        }
    store_as<C>(out, dtype, i, sum);
  }
}

// Windows of at least so many elements are shared by a warp.
constexpr int64_t kSharedWindow = 64;

void pooling(KernelContext& ctx, const PoolingParams& p, Inputs in, Outputs out) {
  const Geometry g = make_geometry(p, in[0].shape, out[0].shape);
  const int64_t n = out[0].size();
  dispatch_sum(in[0].dtype, [&]<class C>(C) {
    if (g.window.kernel_size() >= kSharedWindow)
      launch_items(ctx, pool<C, kWarp>, n * kWarp, n, g, in[0].dtype, in[0].data, out[0].data);
    else
      launch_items(ctx, pool<C, 1>, n, n, g, in[0].dtype, in[0].data, out[0].data);
  });
}

bool windows_overlap(const Geometry& g) {
  for (int i = 0; i < 3; ++i)
    if (g.output.size[i] > 1 && g.window.stride[i] < g.window.kernel[i]) return true;
  return false;
}

void pooling_backward(KernelContext& ctx, const PoolingGradParams& p, Inputs in, Outputs out) {
  const Geometry g = make_geometry(p, out[0].shape, in[0].shape);
  const DType dtype = in[0].dtype;
  const void* data = in.size() > 1 ? in[1].data : nullptr;
  const void* output = in.size() > 2 ? in[2].data : nullptr;
  const int64_t windows = in[0].size(), n = out[0].size();
  dispatch_sum(dtype, [&]<class C>(C) {
    if (g.type != PoolType::kMax || windows_overlap(g)) {
      launch_items(ctx, gather<C>, n, n, g, dtype, in[0].data, data, output, out[0].data);
      return;
    }
    zero_bytes(ctx, out[0].data, out[0].bytes());
    if (g.window.kernel_size() >= kSharedWindow)
      launch_items(ctx, scatter_max<C, kWarp>, windows * kWarp, windows, g, dtype, in[0].data, data,
                   out[0].data);
    else
      launch_items(ctx, scatter_max<C, 1>, windows, windows, g, dtype, in[0].data, data,
                   out[0].data);
  });
}

}  // namespace
}  // namespace cuda

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.kernel<&cuda::pooling>("Pooling", DeviceType::kCUDA);
  ops.kernel<&cuda::pooling_backward>("_pooling_backward", DeviceType::kCUDA);
});

}  // namespace mxlite
