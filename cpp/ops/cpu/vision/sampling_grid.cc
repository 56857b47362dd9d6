#include "cpp/ops/vision/sampling_grid.h"

#include <limits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kPoints = 64;  // number of points whose geometry is stored for all channels
constexpr int64_t kSamplingGridPlanes =
    16;  // number of channels that a thread accumulates at a time

template <class Acc>
struct Point {
  Acc x, y;  // in pixels
};

// Some points of one image, with their neighbours.
template <class Acc>
struct PointBlock {
  enum Kind : uint8_t { kInside, kOutside, kNaN };
  cpu::Neighbours<Acc> points[kPoints];
  Kind kind[kPoints];
  int64_t first, count;

  PointBlock(const Shape& data, int64_t begin, int64_t total, auto&& point_at)
      : first(begin), count(std::min(kPoints, total - begin)) {
    for (int64_t i = 0; i < count; ++i) {
      const Point<Acc> p = point_at(begin + i);
      const bool inside = p.y >= -1 && p.y < static_cast<Acc>(data[2]) && p.x >= -1 &&
                          p.x < static_cast<Acc>(data[3]);
      kind[i] = inside ? kInside : std::isnan(p.x) || std::isnan(p.y) ? kNaN : kOutside;
      if (inside) points[i] = cpu::zero_padded(p.y, p.x, data[2], data[3]);
    }
  }
};

// out[n, c, i] = data[n, c] at point_at(n, i).
template <class T, class F>
void sample(const TensorRef& data_ref, const TensorRef& out, F&& point_at) {
  using Acc = ComputeType<T>;
  const Shape &data = data_ref.shape, &o = out.shape;
  const int64_t plane = data[2] * data[3], total = o[2] * o[3];
  const int64_t blocks = (total + kPoints - 1) / kPoints;
  cpu::parallel_for(o[0] * blocks, kPoints * (8 * o[1] + 16), [&](int64_t item) {
    const int64_t n = item / blocks;
    const PointBlock<Acc> block(data, item % blocks * kPoints, total,
                                [&](int64_t i) { return point_at(n, i); });
    for (int64_t c = 0; c < o[1]; ++c) {
      const T* from = data_ref.as<T>() + (n * o[1] + c) * plane;
      T* to = out.as<T>() + (n * o[1] + c) * total + block.first;
      for (int64_t i = 0; i < block.count; ++i) {
        Acc value = 0;
        if (block.kind[i] == PointBlock<Acc>::kInside)
          value = block.points[i].value(from);
        else if (block.kind[i] == PointBlock<Acc>::kNaN)
          value = std::numeric_limits<Acc>::quiet_NaN();
        to[i] = static_cast<T>(value);
      }
    }
  });
}

// Returns the pixel position of a coordinate in [-1, 1].
template <class Acc>
Acc to_pixel(Acc at, int64_t size) {
  return (at + 1) * static_cast<Acc>(size - 1) / 2;
}

template <class T>
auto grid_points(const TensorRef& grid, const Shape& data) {
  using Acc = ComputeType<T>;
  const int64_t total = grid.shape[2] * grid.shape[3];
  return [&grid, &data, total](int64_t n, int64_t i) {
    const T* x = grid.as<T>() + n * 2 * total + i;
    return Point<Acc>{to_pixel(static_cast<Acc>(x[0]), data[3]),
                      to_pixel(static_cast<Acc>(x[total]), data[2])};
  };
}

void sampler_native(KernelContext&, const BilinearSamplerParams&, Inputs in, Outputs out) {
  dispatch_floating("BilinearSampler", in[0].dtype, [&]<class T>(T) {
    sample<T>(in[0], out[0], grid_points<T>(in[1], in[0].shape));
  });
}

void transformer_native(KernelContext&, const SpatialTransformerParams&, Inputs in, Outputs out) {
  const Shape &data = in[0].shape, &o = out[0].shape;
  dispatch_floating("SpatialTransformer", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    sample<T>(in[0], out[0], [&](int64_t n, int64_t i) {
      const T* a = in[1].as<T>() + n * 6;
      const Acc x = static_cast<Acc>(grid_position(i % o[3], o[3]));
      const Acc y = static_cast<Acc>(grid_position(i / o[3], o[2]));
      const auto row = [&](const T* m) {
        return static_cast<Acc>(m[0]) * x + static_cast<Acc>(m[1]) * y + static_cast<Acc>(m[2]);
      };
      return Point<Acc>{to_pixel(row(a), data[3]), to_pixel(row(a + 3), data[2])};
    });
  });
}

// `in`: output_grad, data, grid. A thread processes the planes of some channels.
template <class T>
void sampling_grid_data_gradient(KernelContext& ctx, Inputs in, const TensorRef& target) {
  using Acc = ComputeType<T>;
  const Shape &data = target.shape, &o = in[0].shape;
  const int64_t plane = data[2] * data[3], total = o[2] * o[3];
  const int64_t blocks = (data[1] + kSamplingGridPlanes - 1) / kSamplingGridPlanes;
  Acc* scratch = static_cast<Acc*>(
      ctx.scratch(static_cast<size_t>(kSamplingGridPlanes * plane * cpu_threads()) * sizeof(Acc)));
  const auto point_at = grid_points<T>(in[2], data);
  const int64_t work = kSamplingGridPlanes * (plane + 8 * total);
  cpu::parallel_ranges(data[0] * blocks, work, [&](int64_t begin, int64_t end, int thread) {
    Acc* sums = scratch + thread * kSamplingGridPlanes * plane;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / blocks, c0 = item % blocks * kSamplingGridPlanes;
      const int64_t count = std::min(kSamplingGridPlanes, data[1] - c0);
      std::fill_n(sums, count * plane, Acc(0));
      for (int64_t first = 0; first < total; first += kPoints) {
        const PointBlock<Acc> block(data, first, total, [&](int64_t i) { return point_at(n, i); });
        for (int64_t c = 0; c < count; ++c) {
          const T* grad = in[0].as<T>() + (n * data[1] + c0 + c) * total + first;
          for (int64_t i = 0; i < block.count; ++i)
            if (block.kind[i] == PointBlock<Acc>::kInside)
              block.points[i].scatter(sums + c * plane, static_cast<Acc>(grad[i]));
        }
      }
      T* to = target.as<T>() + (n * data[1] + c0) * plane;
      for (int64_t i = 0; i < count * plane; ++i) to[i] = static_cast<T>(sums[i]);
    }
  });
}

template <class T>
void grid_gradient(Inputs in, const TensorRef& target) {
  using Acc = ComputeType<T>;
  const Shape &data = in[1].shape, &o = in[0].shape;
  const int64_t plane = data[2] * data[3], total = o[2] * o[3];
  const int64_t blocks = (total + kPoints - 1) / kPoints;
  const auto point_at = grid_points<T>(in[2], data);
  cpu::parallel_for(o[0] * blocks, kPoints * (16 * o[1] + 16), [&](int64_t item) {
    const int64_t n = item / blocks;
    const PointBlock<Acc> block(data, item % blocks * kPoints, total,
                                [&](int64_t i) { return point_at(n, i); });
    Acc sums[4 * kPoints] = {};
    for (int64_t c = 0; c < o[1]; ++c) {
      const T* from = in[1].as<T>() + (n * o[1] + c) * plane;
      const T* grad = in[0].as<T>() + (n * o[1] + c) * total + block.first;
      for (int64_t i = 0; i < block.count; ++i)
        if (block.kind[i] == PointBlock<Acc>::kInside)
          block.points[i].add_products(from, static_cast<Acc>(grad[i]), sums + 4 * i);
    }
    T* to = target.as<T>() + n * 2 * total + block.first;
    const Acc width = static_cast<Acc>(data[3] - 1) / 2, height = static_cast<Acc>(data[2] - 1) / 2;
    for (int64_t i = 0; i < block.count; ++i) {
      const bool inside = block.kind[i] == PointBlock<Acc>::kInside;
      to[i] = static_cast<T>(inside ? block.points[i].by_x(sums + 4 * i) * width : Acc(0));
      to[total + i] = static_cast<T>(inside ? block.points[i].by_y(sums + 4 * i) * height : Acc(0));
    }
  });
}

void sampler_backward_native(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  dispatch_floating("BilinearSampler", in[0].dtype, [&]<class T>(T) {
    sampling_grid_data_gradient<T>(ctx, in, out[0]);
    grid_gradient<T>(in, out[1]);
  });
}

void generator_native(KernelContext&, const GridGeneratorParams& p, Inputs in, Outputs out) {
  const Shape& o = out[0].shape;
  dispatch_floating("GridGenerator", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(o[0] * 2 * o[2], o[3] * 4, [&](int64_t item) {
      const int64_t channel = item / o[2] % 2, row = item % o[2];
      T* to = out[0].as<T>() + item * o[3];
      if (p.transform_type == GridTransform::kAffine) {
        const T* m = in[0].as<T>() + item / o[2] * 3;
        const Acc y = static_cast<Acc>(grid_position(row, o[2]));
        const Acc start = static_cast<Acc>(m[1]) * y + static_cast<Acc>(m[2]);
        for (int64_t j = 0; j < o[3]; ++j)
          to[j] = static_cast<T>(static_cast<Acc>(m[0]) * static_cast<Acc>(grid_position(j, o[3])) +
                                 start);
        return;
      }
      const T* flow = in[0].as<T>() + item * o[3];
      const int64_t size = channel == 0 ? o[3] : o[2];
      for (int64_t j = 0; j < o[3]; ++j) {
        const Acc at = static_cast<Acc>(flow[j]) + static_cast<Acc>(channel == 0 ? j : row);
        to[j] = static_cast<T>(size > 1 ? at * 2 / static_cast<Acc>(size - 1) - 1 : Acc(0));
      }
    });
  });
}

// Sums for one row of the matrix: gradients times x, y and 1.
template <class T>
void affine_gradient(const T* grad, int64_t height, int64_t width, T* to) {
  double sums[3] = {};
  for (int64_t i = 0; i < height; ++i) {
    double along_x = 0, plain = 0;
    for (int64_t j = 0; j < width; ++j) {
      const double v = static_cast<double>(static_cast<ComputeType<T>>(grad[i * width + j]));
      along_x += v * grid_position(j, width);
      plain += v;
    }
    sums[0] += along_x;
    sums[1] += plain * grid_position(i, height);
    sums[2] += plain;
  }
  for (int k = 0; k < 3; ++k) to[k] = static_cast<T>(static_cast<ComputeType<T>>(sums[k]));
}

void generator_backward_native(KernelContext&, const GridGeneratorParams& p, Inputs in,
                               Outputs out) {
  const Shape& o = in[0].shape;
  const int64_t total = o[2] * o[3];
  dispatch_floating("GridGenerator", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(o[0] * 2, total * 2, [&](int64_t item) {
      const T* grad = in[0].as<T>() + item * total;
      if (p.transform_type == GridTransform::kAffine)
        return affine_gradient(grad, o[2], o[3], out[0].as<T>() + item * 3);
      const int64_t size = item % 2 == 0 ? o[3] : o[2];
      const Acc factor = size > 1 ? 2 / static_cast<Acc>(size - 1) : Acc(0);
      T* to = out[0].as<T>() + item * total;
      for (int64_t i = 0; i < total; ++i)
        to[i] = static_cast<T>(static_cast<Acc>(grad[i]) * factor);
    });
  });
}

}  // namespace

static const Registration sampling_grid_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<sampler_native>("BilinearSampler", {.inline_ok = false});
  ops.cpu_kernel<sampler_backward_native>("_bilinear_sampler_backward", {.inline_ok = false});
  ops.cpu_kernel<transformer_native>("SpatialTransformer", {.inline_ok = false});
  ops.cpu_kernel<generator_native>("GridGenerator");
  ops.cpu_kernel<generator_backward_native>("_grid_generator_backward");
});

}  // namespace mxlite
