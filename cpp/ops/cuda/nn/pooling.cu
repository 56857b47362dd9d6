// Forward: one thread per output element. Backward: one thread per element of data, which adds the
// gradients from all windows over it; without atomics, every run gives the same result. Float
// arrays in channels-last layout are processed in packs of channels. For max pooling with windows
// that overlap, a first backward kernel finds the position of each maximum within its window.
#include <initializer_list>
#include <limits>

#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/extreme.cuh"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
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

// Element i of an array with sizes `d`: its position, and where its plane (one image and channel)
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

// The part of a window that lies inside data, and the divisor of its average.
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

// Calls fn(pixel) for pixels first, first + step, ... of a window, in row-major order.
__device__ __forceinline__ void for_pixels(const Geometry& g, const Window& w, auto&& fn,
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

// `share` threads reduce one window through warp shuffles: 1, or a whole warp if it is large.
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

// Elements of a pack: neighbouring channels of channels-last arrays.
template <class T>
constexpr int kVector = static_cast<int>(16 / sizeof(T));

// Index of a pixel within a window, counted from the window's first element, which may be padding.
struct PlaceInWindow {
  int64_t start[3], kernel[3];

  __device__ __forceinline__ PlaceInWindow(const Geometry& g, const int64_t (&window)[3]) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      start[i] = window[i] * g.window.stride[i] - g.window.pad[i];
      kernel[i] = g.window.kernel[i];
    }
  }
  __device__ __forceinline__ int operator()(int64_t d, int64_t h, int64_t w) const {
    return static_cast<int>(((d - start[0]) * kernel[1] + h - start[1]) * kernel[2] + w - start[2]);
  }
};

// Sum, average and max pooling; a thread computes one pack of channels of the output.
template <class T, int V>
__global__ void pool_packs(int64_t packs, const __grid_constant__ Geometry g, const T* x, T* y) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const Place p = place_of(g, g.output, i * V);
    const Window w = window_at(g, p.at);
    Extreme<Acc> best[V];
    Acc sum[V] = {};
    for_pixels(g, w, [&](int64_t k) {
      Acc v[V];
      load_pack<T>(x, p.data_plane + k * g.data.channels, v);
#pragma unroll
      for (int c = 0; c < V; ++c) {
        if (g.type == PoolType::kMax)
          best[c].take(v[c], k);
        else
          sum[c] += v[c];
      }
    });
    const Acc divisor =
        g.type == PoolType::kAvg && w.count > 0 ? static_cast<Acc>(w.count) : Acc(1);
#pragma unroll
    for (int c = 0; c < V; ++c)
      sum[c] = g.type == PoolType::kMax ? best[c].value : sum[c] / divisor;
    store_pack<T>(y, i * V, sum);
  }
}

// Writes the position of the maximum within each window, -1 for a window without elements.
template <class T, class Index, int V>
__global__ void find_maxima(int64_t packs, const __grid_constant__ Geometry g, const T* x,
                            Index* places) {
  using Acc = AccOf<T>;
  const int64_t step = g.step(g.data);
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const Place p = place_of(g, g.output, i * V);
    const Window w = window_at(g, p.at);
    const PlaceInWindow place(g, p.at);
    Extreme<Acc> best[V];
    for (int64_t d = w.begin[0]; d < w.end[0]; ++d)
      for (int64_t h = w.begin[1]; h < w.end[1]; ++h)
        for (int64_t k = w.begin[2]; k < w.end[2]; ++k) {
          Acc v[V];
          const int64_t pixel = (d * g.data.size[1] + h) * g.data.size[2] + k;
          load_pack<T>(x, p.data_plane + pixel * step, v);
#pragma unroll
          for (int c = 0; c < V; ++c) best[c].take(v[c], place(d, h, k));
        }
    int at[V];
#pragma unroll
    for (int c = 0; c < V; ++c) at[c] = static_cast<int>(best[c].at);
    store_pack<Index>(places, i * V, at);
  }
}

// Gradient of max pooling if windows do not overlap: every window writes the gradient of its
// largest element into an array of zeros.
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

// Returns the windows that contain position `at`.
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

// Gradient of max pooling from the positions that find_maxima has written.
template <class T, class Index, int V>
__global__ void gather_maxima(int64_t packs, const __grid_constant__ Geometry g, const T* grad,
                              const Index* places, T* out) {
  using Acc = AccOf<T>;
  const int64_t step = g.step(g.data);
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const Place p = place_of(g, g.data, i * V);
    int64_t begin[3], end[3], o[3];
    windows_over(g, p.at, begin, end);
    Acc sum[V] = {};
    for (o[0] = begin[0]; o[0] < end[0]; ++o[0])
      for (o[1] = begin[1]; o[1] < end[1]; ++o[1])
        for (o[2] = begin[2]; o[2] < end[2]; ++o[2]) {
          const int64_t window =
              p.output_plane + ((o[0] * g.output.size[1] + o[1]) * g.output.size[2] + o[2]) * step;
          const int own = PlaceInWindow(g, o)(p.at[0], p.at[1], p.at[2]);
          int at[V];
          Acc v[V];
          load_pack<Index>(places, window, at);
          load_pack<T>(grad, window, v);
#pragma unroll
          for (int c = 0; c < V; ++c)
            if (at[c] == own) sum[c] += v[c];
        }
    store_pack<T>(out, i * V, sum);
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

// A window of at least this many elements is reduced by a warp.
constexpr int64_t kSharedWindow = 64;

bool packs_fit(const Geometry& g, int vector, std::initializer_list<const TensorRef*> arrays) {
  for (const TensorRef* a : arrays)
    if (reinterpret_cast<uintptr_t>(a->data) % 16 != 0) return false;
  return g.channels_last && g.data.channels % vector == 0;
}

bool pool_in_packs(KernelContext& ctx, const Geometry& g, const TensorRef& in,
                   const TensorRef& out) {
  if (!is_floating(in.dtype) || g.exponent != 1 || g.type == PoolType::kLp) return false;
  bool fits = false;
  dispatch_float_elements("Pooling", in.dtype, [&]<class T>(T) {
    constexpr int V = kVector<T>;
    fits = packs_fit(g, V, {&in, &out});
    const int64_t packs = out.size() / V;
    if (fits) launch_items(ctx, pool_packs<T, V>, packs, packs, g, in.as<T>(), out.as<T>());
  });
  return fits;
}

void pooling(KernelContext& ctx, const PoolingParams& p, Inputs in, Outputs out) {
  const Geometry g = make_geometry(p, in[0].shape, out[0].shape);
  const int64_t n = out[0].size();
  if (pool_in_packs(ctx, g, in[0], out[0])) return;
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

template <class T, class Index, int V>
void backward_of_maxima(KernelContext& ctx, const Geometry& g, const TensorRef& grad,
                        const TensorRef& data, const TensorRef& out) {
  const int64_t windows = grad.size() / V, packs = out.size() / V;
  auto* const places =
      static_cast<Index*>(ctx.scratch(static_cast<size_t>(grad.size()) * sizeof(Index)));
  launch_items(ctx, find_maxima<T, Index, V>, windows, windows, g, data.as<T>(), places);
  launch_items(ctx, gather_maxima<T, Index, V>, packs, packs, g, grad.as<T>(), places, out.as<T>());
}

// Gradient of max pooling of float arrays if windows overlap.
void overlapping_maxima(KernelContext& ctx, const Geometry& g, const TensorRef& grad,
                        const TensorRef& data, const TensorRef& out) {
  dispatch_float_elements("Pooling", grad.dtype, [&]<class T>(T) {
    const auto run = [&]<class Index>(Index) {
      if (packs_fit(g, kVector<T>, {&grad, &data, &out}))
        backward_of_maxima<T, Index, kVector<T>>(ctx, g, grad, data, out);
      else
        backward_of_maxima<T, Index, 1>(ctx, g, grad, data, out);
    };
    if (g.window.kernel_size() <= std::numeric_limits<int8_t>::max())
      run(int8_t{});
    else
      run(int32_t{});
  });
}

void pooling_backward(KernelContext& ctx, const PoolingGradParams& p, Inputs in, Outputs out) {
  const Geometry g = make_geometry(p, out[0].shape, in[0].shape);
  const DType dtype = in[0].dtype;
  const void* data = in.size() > 1 ? in[1].data : nullptr;
  const void* output = in.size() > 2 ? in[2].data : nullptr;
  const int64_t windows = in[0].size(), n = out[0].size();
  if (g.type == PoolType::kMax && windows_overlap(g) && is_floating(dtype) &&
      g.window.kernel_size() < std::numeric_limits<int32_t>::max())
    return overlapping_maxima(ctx, g, in[0], in[1], out[0]);
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

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::pooling>("Pooling");
  ops.cuda_kernel<&cuda::pooling_backward>("_pooling_backward");
});

}  // namespace mxlite::cuda
