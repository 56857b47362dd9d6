#include <algorithm>
#include <limits>

#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/ordered_sums.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/sampling_grid.h"

namespace mxlite::cuda {
namespace {

// Images of (height, width) are read at (out_height, out_width) points.
struct Sampling {
  const void *data, *where;  // where: a grid, or the matrices of affine transformations
  DType dtype;
  int64_t channels, height, width, out_height, out_width;
  bool affine;
  __device__ int64_t plane() const { return height * width; }
  __device__ int64_t total() const { return out_height * out_width; }
};
Sampling sampling(const TensorRef& data, const TensorRef& where, const Shape& points, bool affine) {
  return {data.data,     where.data, data.dtype, data.shape[1], data.shape[2],
          data.shape[3], points[2],  points[3],  affine};
}

// A point in pixels, and its neighbors that lie inside the image.
template <class C>
struct Point {
  enum Kind { kInside, kOutside, kNaN } kind;
  mxlite::cpu::Neighbours<C> near;

  __device__ Point(const Sampling& s, int64_t image, int64_t i) {
    C x, y;
    if (s.affine) {
      const C gx = static_cast<C>(grid_position(i % s.out_width, s.out_width));
      const C gy = static_cast<C>(grid_position(i / s.out_width, s.out_height));
      const auto row = [&](int64_t first) {
        const auto m = [&](int64_t k) {
          return load_as<C>(s.where, s.dtype, image * 6 + first + k);
        };
        return m(0) * gx + m(1) * gy + m(2);
      };
      x = row(0);
      y = row(3);
    } else {
      const int64_t at = image * 2 * s.total() + i;
      x = load_as<C>(s.where, s.dtype, at);
      y = load_as<C>(s.where, s.dtype, at + s.total());
    }
    x = (x + 1) * static_cast<C>(s.width - 1) / 2;
    y = (y + 1) * static_cast<C>(s.height - 1) / 2;
    const bool inside =
        y >= -1 && y < static_cast<C>(s.height) && x >= -1 && x < static_cast<C>(s.width);
    kind = inside ? kInside : x != x || y != y ? kNaN : kOutside;
    if (inside) near = mxlite::cpu::zero_padded(y, x, s.height, s.width);
  }
};

// One thread per point computes all channels, because they share the position.
template <class C>
__global__ void sample_points(int64_t n, const __grid_constant__ Sampling s, void* out) {
  for (int64_t k = global_index(); k < n; k += grid_stride()) {
    const int64_t image = k / s.total(), i = k % s.total();
    const Point<C> point(s, image, i);
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t plane = image * s.channels + c;
      C value = point.kind == Point<C>::kNaN ? std::numeric_limits<C>::quiet_NaN() : C(0);
      if (point.kind == Point<C>::kInside)
        for (int q = 0; q < 4; ++q)
          value += point.near.weight[q] *
                   load_as<C>(s.data, s.dtype, plane * s.plane() + point.near.at[q]);
      store_as<C>(out, s.dtype, plane * s.total() + i, value);
    }
  }
}

void sample(KernelContext& ctx, const Sampling& s, const TensorRef& out) {
  const int64_t n = out.shape[0] * s.out_height * s.out_width;
  dispatch_float_compute(
      s.dtype, [&]<class C>(C) { launch_items(ctx, sample_points<C>, n, n, s, out.data); });
}

void sampler(KernelContext& ctx, const BilinearSamplerParams&, Inputs in, Outputs out) {
  sample(ctx, sampling(in[0], in[1], out[0].shape, false), out[0]);
}
void transformer(KernelContext& ctx, const SpatialTransformerParams&, Inputs in, Outputs out) {
  sample(ctx, sampling(in[0], in[1], out[0].shape, true), out[0]);
}

// The neighbors of points are sorted by pixel, so that each pixel adds its gradients in the order
// of the points and every run gives the same sums. A pixel's row is its index in a plane.
struct NeighbourList {
  int64_t* rows;
  void* weights;  // element type is the type of sums
};
constexpr int64_t kMostNeighbours = int64_t{1} << 21;  // limit per pass, which a single image may
                                                       // exceed

// Entry 4 * point + q is neighbor q of the point. Its row is `none` if the weight is 0.
template <class C>
__global__ void list_neighbours(int64_t n, const __grid_constant__ Sampling s, int64_t first_image,
                                int64_t none, NeighbourList to) {
  for (int64_t k = global_index(); k < n; k += grid_stride()) {
    const int64_t image = first_image + k / s.total();
    const Point<C> point(s, image, k % s.total());
    for (int q = 0; q < 4; ++q) {
      const C weight = point.kind == Point<C>::kInside ? point.near.weight[q] : C(0);
      static_cast<C*>(to.weights)[4 * k + q] = weight;
      to.rows[4 * k + q] =
          weight != C(0) ? image * s.channels * s.plane() + point.near.at[q] : none;
    }
  }
}

// Gradients of the entries above, for ordered_sums.cuh.
struct PointGradients {
  int64_t first_image, channels, total;
  const void *grad, *weights;
  template <class C>
  __device__ C load(const RowAccumulation& a, int64_t entry, const Column& at) const {
    const int64_t point = entry / 4, image = point / total, i = point - image * total;
    const int64_t plane = (first_image + image) * channels + at.outer;
    return static_cast<const C*>(weights)[entry] * load_as<C>(grad, a.dtype, plane * total + i);
  }
};

template <class C>
void image_gradient(KernelContext& ctx, const Sampling& s, const TensorRef& grad,
                    const TensorRef& out) {
  const int64_t batch = out.shape[0], plane = s.height * s.width;
  const int64_t total = s.out_height * s.out_width, none = batch * s.channels * plane;
  zero_bytes(ctx, out.data, out.bytes());
  if (none == 0 || total == 0) return;
  const int64_t images = std::clamp<int64_t>(kMostNeighbours / (4 * total), 1, batch);
  for (int64_t first = 0; first < batch; first += images) {
    const int64_t points = std::min(images, batch - first) * total;
    const RowAccumulation sums{s.dtype, s.channels, 4 * points, none, 1, nullptr, plane};
    ScratchPlan plan;
    const size_t weights_at = plan.add(static_cast<size_t>(4 * points) * sizeof(C));
    const size_t sums_at = plan.add(row_sum_bytes(sums));
    void* block = nullptr;
    int64_t* const rows = rows_to_order(ctx, sums.count, plan.bytes(), &block);
    C* const weights = part<C>(block, weights_at);
    launch_items(ctx, list_neighbours<C>, points, points, s, first, none,
                 NeighbourList{rows, weights});
    const RowOrder order = order_written_rows(ctx, rows, sums.count, none + 1, plan.bytes());
    const PointGradients source{first, s.channels, total, grad.data, weights};
    sum_in_chunks<C>(ctx, order, sums, source, out.data, part<void>(block, sums_at));
  }
}

template <class C>
__global__ void grid_gradient(int64_t n, const __grid_constant__ Sampling s, const void* grad,
                              void* out) {
  for (int64_t k = global_index(); k < n; k += grid_stride()) {
    const int64_t image = k / s.total(), i = k % s.total();
    const Point<C> point(s, image, i);
    C along_x = C(0), along_y = C(0);
    if (point.kind == Point<C>::kInside) {
      C sums[4] = {};
      for (int64_t c = 0; c < s.channels; ++c) {
        const int64_t plane = image * s.channels + c;
        const C g = load_as<C>(grad, s.dtype, plane * s.total() + i);
        for (int q = 0; q < 4; ++q)
          sums[q] += g * load_as<C>(s.data, s.dtype, plane * s.plane() + point.near.at[q]);
      }
      along_x = point.near.by_x(sums) * (static_cast<C>(s.width - 1) / 2);
      along_y = point.near.by_y(sums) * (static_cast<C>(s.height - 1) / 2);
    }
    const int64_t to = image * 2 * s.total() + i;
    store_as<C>(out, s.dtype, to, along_x);
    store_as<C>(out, s.dtype, to + s.total(), along_y);
  }
}

// `in`: output_grad, data, grid.
void sampler_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Sampling s = sampling(in[1], in[2], in[0].shape, false);
  const int64_t points = in[0].shape[0] * s.out_height * s.out_width;
  dispatch_float_compute(s.dtype, [&]<class C>(C) {
    image_gradient<C>(ctx, s, in[0], out[0]);
    launch_items(ctx, grid_gradient<C>, points, points, s, in[0].data, out[1].data);
  });
}

struct Grid {
  int64_t height, width;
  bool affine;
  DType dtype;
};

template <class C>
__global__ void make_grid(int64_t n, Grid g, const void* from, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t column = i % g.width, row = i / g.width % g.height;
    const int64_t plane = i / g.width / g.height, channel = plane % 2;
    C value;
    if (g.affine) {
      const auto m = [&](int64_t k) { return load_as<C>(from, g.dtype, plane * 3 + k); };
      value = m(0) * static_cast<C>(grid_position(column, g.width)) +
              (m(1) * static_cast<C>(grid_position(row, g.height)) + m(2));
    } else {
      const int64_t size = channel == 0 ? g.width : g.height;
      const C at = load_as<C>(from, g.dtype, i) + static_cast<C>(channel == 0 ? column : row);
      value = size > 1 ? at * 2 / static_cast<C>(size - 1) - 1 : C(0);
    }
    store_as<C>(out, g.dtype, i, value);
  }
}
void generator(KernelContext& ctx, const GridGeneratorParams& p, Inputs in, Outputs out) {
  const Grid g{out[0].shape[2], out[0].shape[3], p.transform_type == GridTransform::kAffine,
               in[0].dtype};
  dispatch_float_compute(g.dtype, [&]<class C>(C) {
    launch_items(ctx, make_grid<C>, out[0].size(), out[0].size(), g, in[0].data, out[0].data);
  });
}

// One block per row of the matrix sums the gradients times x, y and 1.
__global__ void affine_gradient(int64_t rows, Grid g, const void* grad, void* out) {
  const int64_t total = g.height * g.width;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    double sums[3] = {};
    for (int64_t i = threadIdx.x; i < total; i += blockDim.x) {
      const double v = load_any<double>(grad, g.dtype, r * total + i);
      sums[0] += v * grid_position(i % g.width, g.width);
      sums[1] += v * grid_position(i / g.width, g.height);
      sums[2] += v;
    }
    for (int k = 0; k < 3; ++k) {
      const double sum = block_sum(sums[k]);
      if (threadIdx.x == 0) store_any(out, g.dtype, r * 3 + k, sum);
    }
  }
}
template <class C>
__global__ void flow_gradient(int64_t n, Grid g, const void* grad, void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t size = i / g.width / g.height % 2 == 0 ? g.width : g.height;
    const C factor = size > 1 ? 2 / static_cast<C>(size - 1) : C(0);
    store_as<C>(out, g.dtype, i, load_as<C>(grad, g.dtype, i) * factor);
  }
}
void generator_backward(KernelContext& ctx, const GridGeneratorParams& p, Inputs in, Outputs out) {
  const Shape& o = in[0].shape;
  const Grid g{o[2], o[3], p.transform_type == GridTransform::kAffine, in[0].dtype};
  if (g.affine) {
    const int64_t rows = o[0] * 2;
    if (rows > 0)
      launch(ctx, affine_gradient, blocks_per_task(ctx, rows), kThreads, rows, g, in[0].data,
             out[0].data);
    return;
  }
  dispatch_float_compute(g.dtype, [&]<class C>(C) {
    launch_items(ctx, flow_gradient<C>, in[0].size(), in[0].size(), g, in[0].data, out[0].data);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&sampler>("BilinearSampler");
  ops.cuda_kernel<&sampler_backward>("_bilinear_sampler_backward");
  ops.cuda_kernel<&transformer>("SpatialTransformer");
  ops.cuda_kernel<&generator>("GridGenerator");
  ops.cuda_kernel<&generator_backward>("_grid_generator_backward");
});

}  // namespace mxlite::cuda
