// Convolution by im2col and matrix product, image by image, where columns contain interpolated
// values. In the plain form, points less than one pixel beyond the last row or column have the
// border's value, and other points outside are 0. The modulated form treats the outside as zeros.
#include "cpp/ops/vision/deformable_convolution.h"

#include <cmath>
#include <limits>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kDeformableConvolutionPlanes =
    16;  // number of channels that a thread accumulates at a time

struct DeformableConvolutionGeometry {
  SpatialWindow window;
  int64_t channels, height, width, out_height, out_width;
  int64_t groups, moved_groups, filters;

  template <class P>
  DeformableConvolutionGeometry(const P& p, const Shape& data, const Shape& out)
      : window(p.window()),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        out_height(out[2]),
        out_width(out[3]),
        groups(p.num_group),
        moved_groups(p.num_deformable_group),
        filters(out[1]) {}
  int64_t plane() const { return height * width; }
  int64_t positions() const { return out_height * out_width; }
  int64_t elements() const { return window.kernel_size(); }
  int64_t group_channels() const { return channels / moved_groups; }
  int64_t depth() const { return channels / groups * elements(); }  // depth of one group's product
  int64_t col_size() const { return channels * elements() * positions(); }
};

// Points of a row of output positions for one element of the window, computed from one image's
// offsets and factors. `inside` marks the points that touch the image.
template <class T, bool kModulated>
struct Points {
  using Acc = ComputeType<T>;
  enum Kind : uint8_t { kInside, kOutside, kNaN };
  const DeformableConvolutionGeometry& g;
  const T *offset, *mask;
  cpu::Neighbours<Acc>* at;  // out_width entries
  Kind* kind;

  void find(int64_t group, int64_t element, int64_t row) const {
    const int64_t index = group * g.elements() + element;
    const T* dy = offset + 2 * index * g.positions() + row * g.out_width;
    const T* dx = dy + g.positions();
    const SpatialWindow& w = g.window;
    const Acc y0 =
        static_cast<Acc>(row * w.stride[1] - w.pad[1] + element / w.kernel[2] * w.dilate[1]);
    const int64_t x0 = element % w.kernel[2] * w.dilate[2] - w.pad[2];
    const Acc height = static_cast<Acc>(g.height), width = static_cast<Acc>(g.width);
    for (int64_t j = 0; j < g.out_width; ++j) {
      const Acc y = y0 + static_cast<Acc>(dy[j]);
      const Acc x = static_cast<Acc>(x0 + j * w.stride[2]) + static_cast<Acc>(dx[j]);
      const bool inside = kModulated ? y > -1 && x > -1 && y < height && x < width
                                     : y >= 0 && x >= 0 && y < height && x < width;
      kind[j] = inside ? kInside : std::isnan(x) || std::isnan(y) ? kNaN : kOutside;
      if (!inside) continue;
      if constexpr (kModulated)
        at[j] = cpu::zero_padded(y, x, g.height, g.width);
      else
        at[j] = cpu::combine(cpu::clamped(y, g.height), cpu::clamped(x, g.width), g.width);
    }
  }
  const T* factors(int64_t group, int64_t element, int64_t row) const {
    return mask + (group * g.elements() + element) * g.positions() + row * g.out_width;
  }
};

// Memory of a call.
template <class T>
struct Workspace {
  using Acc = ComputeType<T>;
  Workspace(KernelContext& ctx, const DeformableConvolutionGeometry& g, bool backward)
      : geometry(g) {
    const int64_t weights = g.filters * g.depth(), threads = cpu_threads();
    const size_t col_at = plan.add<Acc>(g.col_size());
    const size_t weight_at = plan.add<Acc>(weights);
    const size_t out_at = plan.add<Acc>(g.filters * g.positions());
    points_at = plan.add<cpu::Neighbours<Acc>>(g.out_width * threads);
    kinds_at = plan.add<uint8_t>(g.out_width * threads);
    const size_t grad_col_at = plan.add<Acc>(backward ? g.col_size() : 0);
    const size_t grad_weight_at = plan.add<Acc>(backward ? weights : 0);
    planes_at = plan.add<Acc>(backward ? kDeformableConvolutionPlanes * g.plane() * threads : 0);
    sums_at = plan.add<Acc>(backward ? 4 * g.out_width * threads : 0);
    block = ctx.scratch(plan.bytes());
    col = cpu::part<Acc>(block, col_at);
    weight = cpu::part<Acc>(block, weight_at);
    output = cpu::part<Acc>(block, out_at);
    grad_col = cpu::part<Acc>(block, grad_col_at);
    grad_weight = cpu::part<Acc>(block, grad_weight_at);
  }
  template <bool kModulated>
  Points<T, kModulated> points(const T* offset, const T* mask, int thread) const {
    using P = Points<T, kModulated>;
    const int64_t first = thread * geometry.out_width;
    return {geometry, offset, mask, cpu::part<cpu::Neighbours<Acc>>(block, points_at) + first,
            cpu::part<typename P::Kind>(block, kinds_at) + first};
  }
  Acc* planes(int t) const {
    return cpu::part<Acc>(block, planes_at) + t * kDeformableConvolutionPlanes * geometry.plane();
  }
  Acc* sums(int t) const { return cpu::part<Acc>(block, sums_at) + t * 4 * geometry.out_width; }

  const DeformableConvolutionGeometry& geometry;
  cpu::ScratchPlan plan;
  size_t points_at, kinds_at, planes_at, sums_at;
  void* block;
  Acc *col, *weight, *output, *grad_col, *grad_weight;
};

// col[(c, element), position] = image[c] at the shifted position, times the factor.
template <class T, bool kModulated>
void unfold_moved(const Workspace<T>& space, const T* image, const T* offset, const T* mask) {
  using Acc = ComputeType<T>;
  using Kind = typename Points<T, kModulated>::Kind;
  const DeformableConvolutionGeometry& g = space.geometry;
  const int64_t items = g.moved_groups * g.elements() * g.out_height;
  const int64_t work = g.out_width * (8 * g.group_channels() + 16);
  cpu::parallel_ranges(items, work, [&](int64_t begin, int64_t end, int thread) {
    const auto points = space.template points<kModulated>(offset, mask, thread);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item % g.out_height, index = item / g.out_height;
      const int64_t group = index / g.elements(), element = index % g.elements();
      points.find(group, element, row);
      for (int64_t i = 0; i < g.group_channels(); ++i) {
        const int64_t c = group * g.group_channels() + i;
        const T* plane = image + c * g.plane();
        Acc* to = space.col + (c * g.elements() + element) * g.positions() + row * g.out_width;
        for (int64_t j = 0; j < g.out_width; ++j)
          to[j] = points.kind[j] == Kind::kInside ? points.at[j].value(plane)
                  : points.kind[j] == Kind::kNaN  ? std::numeric_limits<Acc>::quiet_NaN()
                                                  : Acc(0);
        if constexpr (kModulated) {
          const T* factor = points.factors(group, element, row);
          for (int64_t j = 0; j < g.out_width; ++j) to[j] *= static_cast<Acc>(factor[j]);
        }
      }
    }
  });
}

// Gradient of one image. A thread processes the planes of some channels of one deformable group.
template <class T, bool kModulated>
void scatter_image(const Workspace<T>& space, const T* offset, const T* mask, T* image_grad) {
  using Acc = ComputeType<T>;
  using Kind = typename Points<T, kModulated>::Kind;
  const DeformableConvolutionGeometry& g = space.geometry;
  const int64_t blocks =
      (g.group_channels() + kDeformableConvolutionPlanes - 1) / kDeformableConvolutionPlanes;
  const int64_t work =
      kDeformableConvolutionPlanes * (g.plane() + 8 * g.elements() * g.positions());
  cpu::parallel_ranges(g.moved_groups * blocks, work, [&](int64_t begin, int64_t end, int thread) {
    const auto points = space.template points<kModulated>(offset, mask, thread);
    Acc* planes = space.planes(thread);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t group = item / blocks, i0 = item % blocks * kDeformableConvolutionPlanes;
      const int64_t count = std::min(kDeformableConvolutionPlanes, g.group_channels() - i0);
      const int64_t c0 = group * g.group_channels() + i0;
      std::fill_n(planes, count * g.plane(), Acc(0));
      for (int64_t part = 0; part < g.elements() * g.out_height; ++part) {
        const int64_t element = part / g.out_height, row = part % g.out_height;
        points.find(group, element, row);
        for (int64_t i = 0; i < count; ++i) {
          const Acc* grad = space.grad_col + ((c0 + i) * g.elements() + element) * g.positions() +
                            row * g.out_width;
          for (int64_t j = 0; j < g.out_width; ++j) {
            if (points.kind[j] != Kind::kInside) continue;
            Acc v = grad[j];
            if constexpr (kModulated) v *= static_cast<Acc>(points.factors(group, element, row)[j]);
            points.at[j].scatter(planes + i * g.plane(), v);
          }
        }
      }
      T* to = image_grad + c0 * g.plane();
      for (int64_t i = 0; i < count * g.plane(); ++i) to[i] = static_cast<T>(planes[i]);
    }
  });
}

// Gradients of one image's offsets and factors: sums over the channels of a deformable group.
template <class T, bool kModulated>
void point_gradients(const Workspace<T>& space, const T* image, const T* offset, const T* mask,
                     T* offset_grad, T* mask_grad) {
  using Acc = ComputeType<T>;
  using Kind = typename Points<T, kModulated>::Kind;
  const DeformableConvolutionGeometry& g = space.geometry;
  const int64_t items = g.moved_groups * g.elements() * g.out_height;
  const int64_t work = g.out_width * (12 * g.group_channels() + 16);
  cpu::parallel_ranges(items, work, [&](int64_t begin, int64_t end, int thread) {
    const auto points = space.template points<kModulated>(offset, mask, thread);
    Acc* sums = space.sums(thread);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item % g.out_height, index = item / g.out_height;
      const int64_t group = index / g.elements(), element = index % g.elements();
      points.find(group, element, row);
      std::fill_n(sums, 4 * g.out_width, Acc(0));
      for (int64_t i = 0; i < g.group_channels(); ++i) {
        const int64_t c = group * g.group_channels() + i;
        const T* plane = image + c * g.plane();
        const Acc* grad =
            space.grad_col + (c * g.elements() + element) * g.positions() + row * g.out_width;
        for (int64_t j = 0; j < g.out_width; ++j)
          if (points.kind[j] == Kind::kInside)
            points.at[j].add_products(plane, grad[j], sums + 4 * j);
      }
      T* dy = offset_grad + 2 * index * g.positions() + row * g.out_width;
      for (int64_t j = 0; j < g.out_width; ++j) {
        const bool inside = points.kind[j] == Kind::kInside;
        const Acc* values = sums + 4 * j;
        Acc factor = 1;
        if constexpr (kModulated) {
          factor = static_cast<Acc>(points.factors(group, element, row)[j]);
          mask_grad[index * g.positions() + row * g.out_width + j] =
              static_cast<T>(inside ? points.at[j].by_factor(values) : Acc(0));
        }
        dy[j] = static_cast<T>(inside ? points.at[j].by_y(values) * factor : Acc(0));
        dy[g.positions() + j] =
            static_cast<T>(inside ? points.at[j].by_x(values) * factor : Acc(0));
      }
    }
  });
}

template <class P>
void forward_native(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const DeformableConvolutionGeometry g(p, in[0].shape, out[0].shape);
  constexpr int kWeight = kWeightInput<P>;
  dispatch_floating("DeformableConvolution", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const Workspace<T> space(ctx, g, /*backward=*/false);
    cpu::convert(in[kWeight].as<T>(), space.weight, in[kWeight].size());
    const T* bias = in.size() > kWeight + 1 ? in[kWeight + 1].as<T>() : nullptr;
    const int64_t filters = g.filters / g.groups;
    for (int64_t n = 0; n < in[0].shape[0]; ++n) {
      const T* mask = P::kModulated ? in[2].as<T>() + n * in[2].shape.product(1, 4) : nullptr;
      unfold_moved<T, P::kModulated>(space, in[0].as<T>() + n * g.channels * g.plane(),
                                     in[1].as<T>() + n * in[1].shape.product(1, 4), mask);
      for (int64_t k = 0; k < g.groups; ++k)
        cpu::gemm(DTypeOf<Acc>::value, false, false, filters, g.positions(), g.depth(),
                  space.weight + k * filters * g.depth(), g.depth(),
                  space.col + k * g.depth() * g.positions(), g.positions(),
                  space.output + k * filters * g.positions(), g.positions());
      T* to = out[0].as<T>() + n * g.filters * g.positions();
      cpu::parallel_for(g.filters, g.positions(), [&](int64_t f) {
        const Acc shift = bias ? static_cast<Acc>(bias[f]) : Acc(0);
        for (int64_t i = f * g.positions(); i < (f + 1) * g.positions(); ++i)
          to[i] = static_cast<T>(space.output[i] + shift);
      });
    }
  });
}

// `in`: output_grad, data, offset, mask if modulated, weight. `out`: gradients of all inputs except
// output_grad.
template <class P>
void backward_native(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const DeformableConvolutionGeometry g(p, in[1].shape, in[0].shape);
  constexpr int kWeight = kWeightInput<P>;
  dispatch_floating("DeformableConvolution", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    constexpr DType kType = DTypeOf<Acc>::value;
    const Workspace<T> space(ctx, g, /*backward=*/true);
    cpu::convert(in[kWeight + 1].as<T>(), space.weight, in[kWeight + 1].size());
    std::fill_n(space.grad_weight, g.filters * g.depth(), Acc(0));
    const int64_t filters = g.filters / g.groups;
    for (int64_t n = 0; n < in[1].shape[0]; ++n) {
      const int64_t offsets = n * in[2].shape.product(1, 4), factors = offsets / 2;
      const T* image = in[1].as<T>() + n * g.channels * g.plane();
      const T* offset = in[2].as<T>() + offsets;
      const T* mask = P::kModulated ? in[3].as<T>() + factors : nullptr;
      T* mask_grad = P::kModulated ? out[2].as<T>() + factors : nullptr;
      unfold_moved<T, P::kModulated>(space, image, offset, mask);
      cpu::convert(in[0].as<T>() + n * g.filters * g.positions(), space.output,
                   g.filters * g.positions());
      for (int64_t k = 0; k < g.groups; ++k) {
        const Acc* grad = space.output + k * filters * g.positions();
        const int64_t weights = k * filters * g.depth(), col = k * g.depth() * g.positions();
        cpu::gemm(kType, false, true, filters, g.depth(), g.positions(), grad, g.positions(),
                  space.col + col, g.positions(), space.grad_weight + weights, g.depth(), 1, 1);
        cpu::gemm(kType, true, false, g.depth(), g.positions(), filters, space.weight + weights,
                  g.depth(), grad, g.positions(), space.grad_col + col, g.positions());
      }
      scatter_image<T, P::kModulated>(space, offset, mask,
                                      out[0].as<T>() + n * g.channels * g.plane());
      point_gradients<T, P::kModulated>(space, image, offset, mask, out[1].as<T>() + offsets,
                                        mask_grad);
    }
    cpu::convert(space.grad_weight, out[kWeight].as<T>(), out[kWeight].size());
  });
}

template <class P>
void register_one(OpRegistry& ops, const char* forward, const char* backward) {
  ops.cpu_kernel<cpu::flushing<forward_native<P>>>(forward, {.inline_ok = false});
  ops.cpu_kernel<cpu::flushing<backward_native<P>>>(backward, {.inline_ok = false});
}

}  // namespace

static const Registration deformable_convolution_registration(Stage::kKernels, [](OpRegistry& ops) {
  register_one<DeformableConvolutionParams>(ops, "_contrib_DeformableConvolution",
                                            "_deformable_convolution_backward");
  register_one<ModulatedDeformableConvolutionParams>(ops, "_contrib_ModulatedDeformableConvolution",
                                                     "_modulated_deformable_convolution_backward");
});

}  // namespace mxlite
