// Windows of pooling: the part of data that a window covers, and the windows over an element.
#pragma once
#include <cstdint>

#include "cpp/ops/cuda/walk.h"
#include "cpp/ops/nn/pooling.h"

namespace mxlite::cuda::windows {

struct Geometry {
  SpatialDims data, output;
  SpatialWindow window;
  bool channels_last, includes_pad;
  PoolType type;
  int exponent;
};

inline Geometry make_geometry(const PoolingParams& p, const Shape& data, const Shape& output) {
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

// Data or output as kernels index it: by elements, or by packs of V neighboring channels.
template <class I>
struct Grid {
  Division<I> channels, size[3];  // channels: in packs
  int64_t pixels = 0;
  Grid(const SpatialDims& d, int pack) : channels(d.channels / pack), pixels(d.spatial_size()) {
    for (int i = 0; i < 3; ++i) size[i] = Division<I>(d.size[i]);
  }
};

template <class I>
struct Pooled {
  Grid<I> data, output;
  Division<I> stride[3];
  I kernel[3], pad[3];
  int64_t step;  // elements between neighboring pixels
  int pack;      // elements of a pack
  bool channels_last, includes_pad;
  PoolType type;
  int exponent;

  Pooled(const Geometry& g, int elements)
      : data(g.data, elements),
        output(g.output, elements),
        step(g.channels_last ? g.data.channels : 1),
        pack(elements),
        channels_last(g.channels_last),
        includes_pad(g.includes_pad),
        type(g.type),
        exponent(g.exponent) {
    for (int i = 0; i < 3; ++i) {
      stride[i] = Division<I>(g.window.stride[i]);
      kernel[i] = static_cast<I>(g.window.kernel[i]);
      pad[i] = static_cast<I>(g.window.pad[i]);
    }
  }
};

// Returns whether indices of packs, and positions inside and around data, have 31 bits.
inline bool is_narrow(const Geometry& g, int pack) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const auto packs = [&](const SpatialDims& d) {
    return d.batch * d.channels * d.spatial_size() / pack;
  };
  bool fits = packs(g.data) <= kMost && packs(g.output) <= kMost && g.window.kernel_size() <= kMost;
  for (int i = 0; i < 3; ++i)
    fits &= g.data.size[i] + 2 * g.window.pad[i] + g.window.kernel[i] + g.window.stride[i] <= kMost;
  return fits;
}

// Calls fn(Pooled<I>) with the narrowest type of indices.
void with_indices(const Geometry& g, auto&& fn) {
  if (is_narrow(g, 1))
    fn(Pooled<int32_t>(g, 1));
  else
    fn(Pooled<int64_t>(g, 1));
}

// Element or pack i of an array: its position, and where its plane (one image and channel) begins
// in data and output.
template <class I>
struct Place {
  I at[3];
  int64_t data_plane, output_plane;
};
template <class I>
__device__ __forceinline__ Place<I> place_of(const Pooled<I>& g, const Grid<I>& d, int64_t index) {
  Place<I> p;
  I i = static_cast<I>(index);
  int64_t c = 0;
  if (g.channels_last) c = int64_t{d.channels.split(i)} * g.pack;
#pragma unroll
  for (int axis = 2; axis >= 0; --axis) p.at[axis] = d.size[axis].split(i);
  // Now i is the index of the plane, or of the image in channels-last arrays.
  p.data_plane = i * g.data.pixels * g.step + c;
  p.output_plane = i * g.output.pixels * g.step + c;
  return p;
}
// Returns the index of a pixel of `d` within its plane.
template <class I>
__device__ __forceinline__ int64_t pixel_of(const Grid<I>& d, I z, I y, I x) {
  return (int64_t{z} * d.size[1].value + y) * d.size[2].value + x;
}

// The part of a window that lies inside data, and the divisor of its average.
template <class I>
struct Window {
  I begin[3], end[3];
  int64_t count;
};
template <class I>
__device__ __forceinline__ Window<I> window_at(const Pooled<I>& g, const I (&at)[3]) {
  Window<I> w;
  w.count = 1;
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const I size = g.data.size[i].value;
    const I start = at[i] * g.stride[i].value - g.pad[i];
    const I limit = size + g.pad[i], full = start + g.kernel[i];
    const I padded_end = full < limit ? full : limit;
    w.begin[i] = start > 0 ? start : 0;
    w.end[i] = padded_end < size ? padded_end : size;
    const I inside = w.end[i] > w.begin[i] ? w.end[i] - w.begin[i] : 0;
    w.count *= g.includes_pad ? padded_end - start : inside;
  }
  return w;
}

// Calls fn(pixel) for all pixels of a window in row-major order.
template <class I>
__device__ __forceinline__ void for_pixels(const Pooled<I>& g, const Window<I>& w, auto&& fn) {
  for (I d = w.begin[0]; d < w.end[0]; ++d)
    for (I h = w.begin[1]; h < w.end[1]; ++h) {
      const int64_t row = pixel_of(g.data, d, h, I(0));
#pragma unroll 4
      for (I x = w.begin[2]; x < w.end[2]; ++x) fn(row + x);
    }
}
// Calls fn(pixel) for the pixels first, first + step, ... of a window, in row-major order.
template <class I>
__device__ __forceinline__ void for_pixels(const Pooled<I>& g, const Window<I>& w, auto&& fn,
                                           int first, int step) {
  if (step == 1) return for_pixels(g, w, fn);
  const I width = w.end[2] - w.begin[2], height = w.end[1] - w.begin[1];
  if (width <= 0 || height <= 0) return;
  const I all = (w.end[0] - w.begin[0]) * height * width;
  for (I i = static_cast<I>(first); i < all; i += static_cast<I>(step))
    fn(pixel_of(g.data, w.begin[0] + i / (width * height), w.begin[1] + i / width % height,
                w.begin[2] + i % width));
}

// Returns the index of a position within the window `o` of the output, counted from the window's
// first element, which may be padding.
template <class I>
__device__ __forceinline__ I index_in_window(const Pooled<I>& g, const I (&o)[3], I d, I h, I x) {
  const auto offset = [&](int axis, I at) {
    return at - (o[axis] * g.stride[axis].value - g.pad[axis]);
  };
  return (offset(0, d) * g.kernel[1] + offset(1, h)) * g.kernel[2] + offset(2, x);
}

// Calls fn(o, element) for every window that contains position `p`. `o` is the position of the
// window in the output, and `element` is the index of its output element.
template <class I>
__device__ __forceinline__ void for_windows(const Pooled<I>& g, const Place<I>& p, auto&& fn) {
  I begin[3], end[3], o[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const I from = p.at[i] + g.pad[i] - g.kernel[i];
    begin[i] = from < 0 ? 0 : g.stride[i].quotient(from) + 1;
    const I last = g.stride[i].quotient(p.at[i] + g.pad[i]) + 1, size = g.output.size[i].value;
    end[i] = last < size ? last : size;
  }
  for (o[0] = begin[0]; o[0] < end[0]; ++o[0])
    for (o[1] = begin[1]; o[1] < end[1]; ++o[1])
      for (o[2] = begin[2]; o[2] < end[2]; ++o[2])
        fn(o, p.output_plane + pixel_of(g.output, o[0], o[1], o[2]) * g.step);
}

}  // namespace mxlite::cuda::windows
