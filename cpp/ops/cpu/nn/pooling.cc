#include "cpp/ops/nn/pooling.h"

#include <cmath>
#include <limits>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kBlock = 64;  // channels processed together in channels-last data

// Computes addresses in an image plane (channels first) or in a block of channels (channels last).
struct Geometry {
  SpatialDims data, output;
  SpatialWindow window;
  bool channels_last, includes_pad;
  int64_t block, blocks;  // channels per block, blocks per image
  int64_t pixel_stride;

  int64_t planes() const { return data.batch * blocks; }
  int64_t plane_channels(int64_t plane) const {
    return std::min(block, data.channels - plane % blocks * block);
  }
  int64_t offset(int64_t plane, const SpatialDims& d) const {
    const int64_t image = plane / blocks * data.channels * d.spatial_size();
    const int64_t channel = plane % blocks * block;
    return image + channel * (channels_last ? 1 : d.spatial_size());
  }
};

Geometry make_geometry(const PoolingParams& p, const Shape& data, const Shape& output) {
  Geometry g;
  g.channels_last = p.channels_last();
  g.data = spatial_dims(data, g.channels_last);
  g.output = spatial_dims(output, g.channels_last);
  g.window = p.window(data);
  g.includes_pad = p.includes_pad();
  g.block = g.channels_last ? kBlock : 1;
  g.blocks = (g.data.channels + g.block - 1) / g.block;
  g.pixel_stride = g.channels_last ? g.data.channels : 1;
  return g;
}

// The part of a window that lies inside the data, and the divisor of its average.
struct Window {
  int64_t begin[3], end[3], count = 1;

  // Returns how many elements along axis i the average counts, for the window of output index
  // `at`.
  int64_t count_of(const Geometry& g, int i, int64_t at) const {
    const int64_t start = at * g.window.stride[i] - g.window.pad[i];
    const int64_t padded_end =
        std::min(start + g.window.kernel[i], g.data.size[i] + g.window.pad[i]);
    return g.includes_pad ? padded_end - start : std::max<int64_t>(end[i] - begin[i], 0);
  }
};
Window window_at(const Geometry& g, int64_t position) {
  const int64_t at[3] = {position / (g.output.size[2] * g.output.size[1]),
                         position / g.output.size[2] % g.output.size[1],
                         position % g.output.size[2]};
  Window w;
  for (int i = 0; i < 3; ++i) {
    const int64_t start = at[i] * g.window.stride[i] - g.window.pad[i];
    const int64_t padded_end =
        std::min(start + g.window.kernel[i], g.data.size[i] + g.window.pad[i]);
    w.begin[i] = std::max<int64_t>(start, 0);
    w.end[i] = std::min(padded_end, g.data.size[i]);
    w.count *= w.count_of(g, i, at[i]);
  }
  return w;
}

void for_each_pixel(const Geometry& g, const Window& w, auto&& fn) {
  for (int64_t d = w.begin[0]; d < w.end[0]; ++d)
    for (int64_t h = w.begin[1]; h < w.end[1]; ++h)
      for (int64_t x = w.begin[2]; x < w.end[2]; ++x)
        fn(((d * g.data.size[1] + h) * g.data.size[2] + x) * g.pixel_stride);
}

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

template <class A>
A power(A v, int64_t p) {
  return p == 1 ? v : p == 2 ? v * v : v * v * v;
}
template <class A>
A root(A v, int64_t p) {
  return p == 1 ? v : static_cast<A>(p == 2 ? std::sqrt(v) : std::cbrt(v));
}

template <class T, class Acc>
void pool_window(const Geometry& g, const PoolingParams& p, const Window& w, const T* data,
                 int64_t channels, T* out) {
  Acc acc[kBlock];
  const bool max = p.pool_type == PoolType::kMax;
  const int64_t exponent = p.pool_type == PoolType::kLp ? *p.p_value : 1;
  std::fill_n(acc, channels, max ? lowest<Acc>() : Acc(0));
  for_each_pixel(g, w, [&](int64_t at) {
    const T* x = data + at;
    if (max) {
      for (int64_t c = 0; c < channels; ++c) {
        const Acc v = static_cast<Acc>(x[c]);
        if (v > acc[c] || v != v) acc[c] = v;  // keeps NaN
      }
    } else {
      for (int64_t c = 0; c < channels; ++c)
        acc[c] = static_cast<Acc>(acc[c] + power(static_cast<Acc>(x[c]), exponent));
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    if (p.pool_type == PoolType::kAvg && w.count > 0)
      acc[c] = static_cast<Acc>(acc[c] / static_cast<Acc>(w.count));
    out[c] = static_cast<T>(root(acc[c], exponent));
  }
}

// Integers are summed in 64 bits, so that the average of int8 values does not wrap.
template <class T>
using PoolAcc = std::conditional_t<std::is_integral_v<T>, int64_t, ComputeType<T>>;

// Computes the average of each plane.
template <class T>
void whole_average(const Geometry& g, Inputs in, Outputs out) {
  cpu::parallel_for(g.planes(), g.data.spatial_size(), [&](int64_t plane) {
    const int64_t n = g.data.spatial_size();
    const T* const x = in[0].as<T>() + plane * n;
    const double sum =
        cpu::sum_of<ComputeType<T>>(n, [=](int64_t i) { return ComputeType<T>(x[i]); });
    out[0].as<T>()[plane] =
        static_cast<T>(static_cast<ComputeType<T>>(sum / static_cast<double>(n)));
  });
}

void pooling_native(KernelContext&, const PoolingParams& p, Inputs in, Outputs out) {
  const Geometry g = make_geometry(p, in[0].shape, out[0].shape);
  const int64_t positions = g.output.spatial_size();
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<ComputeType<T>>)
      if (p.is_whole_average() && g.data.spatial_size() > 0) return whole_average<T>(g, in, out);
    cpu::parallel_for(g.planes(), positions * g.block * g.window.kernel_size(), [&](int64_t plane) {
      const T* data = in[0].as<T>() + g.offset(plane, g.data);
      T* output = out[0].as<T>() + g.offset(plane, g.output);
      for (int64_t o = 0; o < positions; ++o)
        pool_window<T, PoolAcc<T>>(g, p, window_at(g, o), data, g.plane_channels(plane),
                                   output + o * g.pixel_stride);
    });
  });
}

// The gradient goes to the first largest element of each window.
template <class T, class Acc>
void max_backward(const Geometry& g, const Window& w, const T* grad, const T* data,
                  int64_t channels, Acc* sum) {
  int64_t where[kBlock];
  Acc best[kBlock];
  std::fill_n(where, channels, -1);
  std::fill_n(best, channels, lowest<Acc>());
  for_each_pixel(g, w, [&](int64_t at) {
    for (int64_t c = 0; c < channels; ++c) {
      const Acc v = static_cast<Acc>(data[at + c]);
      if (v > best[c] || (where[c] < 0 && v == best[c]) || (v != v && best[c] == best[c])) {
        best[c] = v;
        where[c] = at / g.pixel_stride;
      }
    }
  });
  for (int64_t c = 0; c < channels; ++c)
    if (where[c] >= 0) {
      Acc& s = sum[where[c] * g.block + c];
      s = static_cast<Acc>(s + static_cast<Acc>(grad[c]));
    }
}

template <class T, class Acc>
void sum_backward(const Geometry& g, const PoolingParams& p, const Window& w, const T* grad,
                  const T* data, const T* output, int64_t channels, Acc* sum) {
  for_each_pixel(g, w, [&](int64_t at) {
    Acc* target = sum + at / g.pixel_stride * g.block;
    for (int64_t c = 0; c < channels; ++c) {
      Acc v = static_cast<Acc>(grad[c]);
      if (p.pool_type == PoolType::kAvg) {
        v = static_cast<Acc>(v / static_cast<Acc>(std::max<int64_t>(w.count, 1)));
      } else if (p.pool_type == PoolType::kLp && *p.p_value > 1) {
        const Acc ratio_base = static_cast<Acc>(output[c]);
        const Acc ratio = ratio_base == 0 ? Acc(0) : static_cast<Acc>(data[at + c]) / ratio_base;
        v = static_cast<Acc>(v * (*p.p_value == 2 ? ratio : ratio * ratio));
      }
      target[c] = static_cast<Acc>(target[c] + v);
    }
  });
}

// Position of the first largest element so far. NaN counts as largest, and the first NaN is kept.
template <class Acc>
struct Largest {
  Acc value = lowest<Acc>();
  int64_t at = -1;

  void take(Acc v, int64_t i) {
    if (v > value || (at < 0 && v == value) || (v != v && value == value)) {
      value = v;
      at = i;
    }
  }
  // Processes a row of n elements that starts at element `first`.
  template <class T>
  void take_row(const T* row, int64_t n, int64_t first) {
    constexpr int64_t kLongRow = 16;
    int64_t begin = 0;
    if (n >= kLongRow) {
      if (value != value) return;
      Acc top = lowest<Acc>();
      int nan = 0;
#pragma omp simd reduction(max : top) reduction(| : nan)
      for (int64_t i = 0; i < n; ++i) {
        const Acc v = static_cast<Acc>(row[i]);
        top = v > top ? v : top;
        nan |= v != v;
      }
      if (!nan && !(top > value) && at >= 0) return;
      if (!nan)  // finds the first of equal largest elements
        while (static_cast<Acc>(row[begin]) != top) ++begin;
    }
    for (int64_t i = begin; i < n; ++i) {
      take(static_cast<Acc>(row[i]), first + i);
      if (begin > 0) return;
    }
  }
};

// Calls fn(output position, window) for a plane. Computes the bounds of a row of windows once.
void for_each_window(const Geometry& g, auto&& fn) {
  int64_t o = 0;
  for (int64_t d = 0; d < g.output.size[0]; ++d)
    for (int64_t h = 0; h < g.output.size[1]; ++h) {
      const Window first = window_at(g, o);
      const int64_t outer = first.count_of(g, 0, d) * first.count_of(g, 1, h);
      Window w = first;
      for (int64_t x = 0; x < g.output.size[2]; ++x, ++o) {
        w.begin[2] = std::max<int64_t>(x * g.window.stride[2] - g.window.pad[2], 0);
        w.end[2] =
            std::min(x * g.window.stride[2] - g.window.pad[2] + g.window.kernel[2], g.data.size[2]);
        w.count = outer * w.count_of(g, 2, x);
        fn(o, w);
      }
    }
}

// Calls fn(offset of the first element, count) for each row of the window; the elements of a row
// are adjacent in memory.
void for_each_row(const Geometry& g, const Window& w, auto&& fn) {
  const int64_t n = w.end[2] - w.begin[2];
  if (n <= 0) return;
  for (int64_t d = w.begin[0]; d < w.end[0]; ++d)
    for (int64_t h = w.begin[1]; h < w.end[1]; ++h)
      fn((d * g.data.size[1] + h) * g.data.size[2] + w.begin[2], n);
}

// Processes one plane of channels-first data for maxima, averages and sums.
template <class T, class Acc>
void plane_backward(const Geometry& g, const PoolingParams& p, const T* grad, const T* data,
                    Acc* sum) {
  if (p.pool_type == PoolType::kMax) {
    for_each_window(g, [=, &g](int64_t o, const Window& w) {
      Largest<Acc> largest;
      for_each_row(g, w, [&](int64_t at, int64_t n) { largest.take_row(data + at, n, at); });
      if (largest.at >= 0)
        sum[largest.at] = static_cast<Acc>(sum[largest.at] + static_cast<Acc>(grad[o]));
    });
    return;
  }
  const bool average = p.pool_type == PoolType::kAvg;
  for_each_window(g, [=, &g](int64_t o, const Window& w) {
    Acc v = static_cast<Acc>(grad[o]);
    if (average) v = static_cast<Acc>(v / static_cast<Acc>(std::max<int64_t>(w.count, 1)));
    for_each_row(g, w, [=](int64_t at, int64_t n) {
      Acc* const target = sum + at;
      if (n < 8) {
        for (int64_t i = 0; i < n; ++i) target[i] = static_cast<Acc>(target[i] + v);
        return;
      }
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) target[i] = static_cast<Acc>(target[i] + v);
    });
  });
}

void pooling_backward_native(KernelContext& ctx, const PoolingGradParams& p, Inputs in,
                             Outputs out) {
  const Geometry g = make_geometry(p, out[0].shape, in[0].shape);
  const int64_t positions = g.output.spatial_size(), pixels = g.data.spatial_size();
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Acc = PoolAcc<T>;
    // Each thread has one plane of sums.
    Acc* scratch = static_cast<Acc*>(
        ctx.scratch(static_cast<size_t>(pixels * g.block * cpu_threads()) * sizeof(Acc)));
    const int64_t work = positions * g.block * g.window.kernel_size();
    cpu::parallel_ranges(g.planes(), work, [&](int64_t begin, int64_t end, int thread) {
      Acc* sum = scratch + thread * pixels * g.block;
      for (int64_t plane = begin; plane < end; ++plane) {
        std::fill_n(sum, pixels * g.block, Acc(0));
        const int64_t channels = g.plane_channels(plane);
        const int64_t data_at = g.offset(plane, g.data), out_at = g.offset(plane, g.output);
        const T* data = in.size() > 1 ? in[1].as<T>() + data_at : nullptr;
        const bool plain = g.block == 1 && g.pixel_stride == 1 && p.pool_type != PoolType::kLp;
        if (plain) plane_backward(g, p, in[0].as<T>() + out_at, data, sum);
        for (int64_t o = 0; o < positions && !plain; ++o) {
          const int64_t at = out_at + o * g.pixel_stride;
          const T* output = in.size() > 2 ? in[2].as<T>() + at : nullptr;
          if (p.pool_type == PoolType::kMax)
            max_backward(g, window_at(g, o), in[0].as<T>() + at, data, channels, sum);
          else
            sum_backward(g, p, window_at(g, o), in[0].as<T>() + at, data, output, channels, sum);
        }
        T* target = out[0].as<T>() + data_at;
        if (plain)
          for (int64_t i = 0; i < pixels; ++i) target[i] = static_cast<T>(sum[i]);
        for (int64_t i = 0; i < pixels && !plain; ++i)
          for (int64_t c = 0; c < channels; ++c)
            target[i * g.pixel_stride + c] = static_cast<T>(sum[i * g.block + c]);
      }
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<pooling_native>>("Pooling", {.inline_ok = false});
  ops.cpu_kernel<cpu::flushing<pooling_backward_native>>("_pooling_backward", {.inline_ok = false});
});

}  // namespace mxlite
