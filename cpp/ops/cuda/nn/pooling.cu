// Forward: one thread per output element. Backward: one thread per element of data, which adds the
// gradients from all windows over it; without atomics, every run gives the same result. Float
// arrays in channels-last layout are processed in packs of channels. For max pooling with windows
// that overlap, a first backward kernel finds the position of each maximum within its window.
#include <initializer_list>
#include <limits>

#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/extreme.cuh"
#include "cpp/ops/cuda/nn/pooling_windows.cuh"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using namespace windows;  // NOLINT: only this file includes it

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

// `share` threads reduce one window through warp shuffles: 1, or a whole warp for a large window.
template <class C, int share, class I>
__global__ void pool(int64_t n, const __grid_constant__ Pooled<I> g, DType dtype, const void* x,
                     void* y) {
  const int lane = share == 1 ? 0 : threadIdx.x % share;
  for (int64_t i = global_index() / share; i < n; i += grid_stride() / share) {
    const Place<I> p = place_of(g, g.output, i);
    const Window<I> w = window_at(g, p.at);
    if (g.type == PoolType::kMax) {
      Extreme<C> best;
      for_pixels(
          g, w, [&](int64_t k) { best.take(load_as<C>(x, dtype, p.data_plane + k * g.step), k); },
          lane, share);
      if constexpr (share > 1) best.join_warp();
      if (lane == 0) store_as<C>(y, dtype, i, best.value);
    } else {
      C sum = C(0);
      for_pixels(
          g, w,
          [&](int64_t k) {
            sum += power(load_as<C>(x, dtype, p.data_plane + k * g.step), g.exponent);
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

// Kernels on packs have 32-bit indices.
using PackPool = Pooled<int32_t>;

// Sum, average and max pooling; a thread computes one pack of channels of the output.
template <class T, int V>
__global__ void pool_packs(int64_t packs, const __grid_constant__ PackPool g, const T* x, T* y) {
  using Acc = AccOf<T>;
  const bool is_max = g.type == PoolType::kMax;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const auto p = place_of(g, g.output, i);
    const auto w = window_at(g, p.at);
    Acc result[V];
#pragma unroll
    for (int c = 0; c < V; ++c) result[c] = is_max ? Extreme<Acc>::worst() : Acc(0);
    for_pixels(g, w, [&](int64_t k) {
      Acc v[V];
      load_pack<T>(x, p.data_plane + k * g.step, v);
#pragma unroll
      for (int c = 0; c < V; ++c) {
        if (!is_max)
          result[c] += v[c];
        else if (v[c] > result[c] || v[c] != v[c])  // NaN stays
          result[c] = v[c];
      }
    });
    if (g.type == PoolType::kAvg && w.count > 0) {
#pragma unroll
      for (int c = 0; c < V; ++c) result[c] /= static_cast<Acc>(w.count);
    }
    store_pack<T>(y, i * V, result);
  }
}

// Writes the position of the maximum within each window, -1 for a window without elements.
template <class T, class Index, int V, class I>
__global__ void find_maxima(int64_t packs, const __grid_constant__ Pooled<I> g, const T* x,
                            Index* places) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const Place<I> p = place_of(g, g.output, i);
    const Window<I> w = window_at(g, p.at);
    Extreme<Acc, false, int32_t> best[V];
    for (I d = w.begin[0]; d < w.end[0]; ++d)
      for (I h = w.begin[1]; h < w.end[1]; ++h) {
        const int64_t row = pixel_of(g.data, d, h, I(0));
#pragma unroll 4
        for (I k = w.begin[2]; k < w.end[2]; ++k) {
          Acc v[V];
          load_pack<T>(x, p.data_plane + (row + k) * g.step, v);
          const int place = static_cast<int>(index_in_window(g, p.at, d, h, k));
#pragma unroll
          for (int c = 0; c < V; ++c) best[c].take(v[c], place);
        }
      }
    int at[V];
#pragma unroll
    for (int c = 0; c < V; ++c) at[c] = best[c].at;
    store_pack<Index>(places, i * V, at);
  }
}

// Gradient of max pooling if windows do not overlap: every window writes the gradient of its
// largest element into an array of zeros.
template <class C, int share, class I>
__global__ void scatter_max(int64_t n, const __grid_constant__ Pooled<I> g, DType dtype,
                            const void* grad, const void* x, void* out) {
  const int lane = share == 1 ? 0 : threadIdx.x % share;
  for (int64_t i = global_index() / share; i < n; i += grid_stride() / share) {
    const Place<I> p = place_of(g, g.output, i);
    Extreme<C> best;
    for_pixels(
        g, window_at(g, p.at),
        [&](int64_t k) { best.take(load_as<C>(x, dtype, p.data_plane + k * g.step), k); }, lane,
        share);
    if constexpr (share > 1) best.join_warp();
    if (lane == 0 && best.at >= 0)
      store_as<C>(out, dtype, p.data_plane + best.at * g.step, load_as<C>(grad, dtype, i));
  }
}

// Gradient of max pooling from the positions that find_maxima has written.
template <class T, class Index, int V, class I>
__global__ void gather_maxima(int64_t packs, const __grid_constant__ Pooled<I> g, const T* grad,
                              const Index* places, T* out) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const Place<I> p = place_of(g, g.data, i);
    Acc sum[V] = {};
    for_windows(g, p, [&](const I(&o)[3], int64_t element) {
      const int own = static_cast<int>(index_in_window(g, o, p.at[0], p.at[1], p.at[2]));
      int at[V];
      Acc v[V];
      load_pack<Index>(places, element, at);
      load_pack<T>(grad, element, v);
#pragma unroll
      for (int c = 0; c < V; ++c)
        if (at[c] == own) sum[c] += v[c];
    });
    store_pack<T>(out, i * V, sum);
  }
}

// Gradient of sum and average pooling.
template <class T, int V>
__global__ void gather_packs(int64_t packs, const __grid_constant__ PackPool g, const T* grad,
                             T* out) {
  using Acc = AccOf<T>;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    const auto p = place_of(g, g.data, i);
    Acc sum[V] = {};
    for_windows(g, p, [&](const int32_t(&o)[3], int64_t element) {
      const int64_t count = g.type == PoolType::kAvg ? window_at(g, o).count : 1;
      const Acc divisor = static_cast<Acc>(count > 1 ? count : 1);
      Acc v[V];
      load_pack<T>(grad, element, v);
#pragma unroll
      for (int c = 0; c < V; ++c) sum[c] += v[c] / divisor;
    });
    store_pack<T>(out, i * V, sum);
  }
}

template <class C, class I>
__global__ void gather(int64_t n, const __grid_constant__ Pooled<I> g, DType dtype,
                       const void* grad, const void* x, const void* y, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Place<I> p = place_of(g, g.data, i);
    const int64_t pixel = pixel_of(g.data, p.at[0], p.at[1], p.at[2]);
    C sum = C(0);
    for_windows(g, p, [&](const I(&o)[3], int64_t at) {
      const Window<I> w = window_at(g, o);
      C v = load_as<C>(grad, dtype, at);
      if (g.type == PoolType::kMax) {
        Extreme<C> best;
        for_pixels(g, w, [&](int64_t k) {
          best.take(load_as<C>(x, dtype, p.data_plane + k * g.step), k);
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
    });
    store_as<C>(out, dtype, i, sum);
  }
}

// A window of at least this many elements is reduced by a warp.
constexpr int64_t kSharedWindow = 64;

bool packs_fit(const Geometry& g, int vector, std::initializer_list<const TensorRef*> arrays) {
  for (const TensorRef* a : arrays)
    if (!is_aligned(a->data)) return false;
  return g.channels_last && g.data.channels % vector == 0 && is_narrow(g, vector);
}

// Calls fn(T{}, packs, geometry) if float arrays can be processed in packs; `packs` is the number
// of packs of `result`. Returns whether fn was called.
bool in_packs(const Geometry& g, std::initializer_list<const TensorRef*> arrays,
              const TensorRef& result, auto&& fn) {
  if (!is_floating(result.dtype)) return false;
  bool fits = false;
  dispatch_float_elements("Pooling", result.dtype, [&]<class T>(T t) {
    constexpr int V = kVector<T>;
    fits = packs_fit(g, V, arrays);
    if (fits) fn(t, result.size() / V, PackPool(g, V));
  });
  return fits;
}

void pooling(KernelContext& ctx, const PoolingParams& p, Inputs in, Outputs out) {
  const Geometry geometry = make_geometry(p, in[0].shape, out[0].shape);
  const int64_t n = out[0].size();
  const auto pool_all = [&]<class T>(T, int64_t packs, const PackPool& g) {
    launch_items(ctx, pool_packs<T, kVector<T>>, packs, packs, g, in[0].as<T>(), out[0].as<T>());
  };
  if (p.pool_type != PoolType::kLp && in_packs(geometry, {&in[0], &out[0]}, out[0], pool_all))
    return;
  dispatch_sum(in[0].dtype, [&]<class C>(C) {
    with_indices(geometry, [&]<class I>(const Pooled<I>& g) {
      if (geometry.window.kernel_size() >= kSharedWindow)
        launch_items(ctx, pool<C, kWarp, I>, n * kWarp, n, g, in[0].dtype, in[0].data, out[0].data);
      else
        launch_items(ctx, pool<C, 1, I>, n, n, g, in[0].dtype, in[0].data, out[0].data);
    });
  });
}

bool windows_overlap(const Geometry& g) {
  for (int i = 0; i < 3; ++i)
    if (g.output.size[i] > 1 && g.window.stride[i] < g.window.kernel[i]) return true;
  return false;
}

template <class T, class Index, int V, class I>
void backward_of_maxima(KernelContext& ctx, const Pooled<I>& g, const TensorRef& grad,
                        const TensorRef& data, const TensorRef& out) {
  const int64_t windows = grad.size() / V, packs = out.size() / V;
  auto* const places =
      static_cast<Index*>(ctx.scratch(static_cast<size_t>(grad.size()) * sizeof(Index)));
  launch_items(ctx, find_maxima<T, Index, V, I>, windows, windows, g, data.as<T>(), places);
  launch_items(ctx, gather_maxima<T, Index, V, I>, packs, packs, g, grad.as<T>(), places,
               out.as<T>());
}

// Gradient of max pooling of float arrays from the position of each maximum.
void gather_all_maxima(KernelContext& ctx, const Geometry& geometry, const TensorRef& grad,
                       const TensorRef& data, const TensorRef& out) {
  dispatch_float_elements("Pooling", grad.dtype, [&]<class T>(T) {
    const auto run = [&]<class Index>(Index) {
      if (packs_fit(geometry, kVector<T>, {&grad, &data, &out}))
        return backward_of_maxima<T, Index, kVector<T>>(ctx, PackPool(geometry, kVector<T>), grad,
                                                        data, out);
      with_indices(geometry, [&]<class I>(const Pooled<I>& g) {
        backward_of_maxima<T, Index, 1>(ctx, g, grad, data, out);
      });
    };
    if (geometry.window.kernel_size() <= std::numeric_limits<int8_t>::max())
      run(int8_t{});
    else
      run(int32_t{});
  });
}

void pooling_backward(KernelContext& ctx, const PoolingGradParams& p, Inputs in, Outputs out) {
  const Geometry geometry = make_geometry(p, out[0].shape, in[0].shape);
  const DType dtype = in[0].dtype;
  const void* data = in.size() > 1 ? in[1].data : nullptr;
  const void* output = in.size() > 2 ? in[2].data : nullptr;
  const int64_t windows = in[0].size(), n = out[0].size();
  const bool is_max = p.pool_type == PoolType::kMax, overlap = windows_overlap(geometry);
  if (is_max && overlap && is_floating(dtype) &&
      geometry.window.kernel_size() < std::numeric_limits<int32_t>::max())
    return gather_all_maxima(ctx, geometry, in[0], in[1], out[0]);
  const auto gather_all = [&]<class T>(T, int64_t packs, const PackPool& g) {
    launch_items(ctx, gather_packs<T, kVector<T>>, packs, packs, g, in[0].as<T>(), out[0].as<T>());
  };
  if ((p.pool_type == PoolType::kAvg || p.pool_type == PoolType::kSum) &&
      in_packs(geometry, {&in[0], &out[0]}, out[0], gather_all))
    return;
  dispatch_sum(dtype, [&]<class C>(C) {
    with_indices(geometry, [&]<class I>(const Pooled<I>& g) {
      if (!is_max || overlap) {
        launch_items(ctx, gather<C, I>, n, n, g, dtype, in[0].data, data, output, out[0].data);
        return;
      }
      zero_bytes(ctx, out[0].data, out[0].bytes());
      if (geometry.window.kernel_size() >= kSharedWindow)
        launch_items(ctx, scatter_max<C, kWarp, I>, windows * kWarp, windows, g, dtype, in[0].data,
                     data, out[0].data);
      else
        launch_items(ctx, scatter_max<C, 1, I>, windows, windows, g, dtype, in[0].data, data,
                     out[0].data);
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::pooling>("Pooling");
  ops.cuda_kernel<&cuda::pooling_backward>("_pooling_backward");
});

}  // namespace mxlite::cuda
