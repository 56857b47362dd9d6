// Convolution by im2col and matrix product, image by image; the columns hold interpolated values.
// In the plain form, points less than one pixel after the last row or column read the border's
// values, and other outside points read 0; the modulated form pads the image with zeros.
#include <limits>

#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/deformable_convolution.h"

namespace mxlite::cuda {
namespace {

struct Geometry {
  SpatialWindow window;
  int64_t channels, height, width, out_height, out_width;
  int64_t groups, moved_groups, filters;
  DType dtype;
  bool modulated;
  int64_t elements, plane, positions, group_channels, depth;  // depth of one group's product

  template <class P>
  Geometry(const P& p, const TensorRef& data, const Shape& out)
      : window(p.window()),
        channels(data.shape[1]),
        height(data.shape[2]),
        width(data.shape[3]),
        out_height(out[2]),
        out_width(out[3]),
        groups(p.num_group),
        moved_groups(p.num_deformable_group),
        filters(out[1]),
        dtype(data.dtype),
        modulated(P::kModulated),
        elements(window.kernel_size()),
        plane(height * width),
        positions(out_height * out_width),
        group_channels(channels / moved_groups),
        depth(channels / groups * elements) {}
};

// Arrays of one image; `offset` and `mask` point to the image's part.
struct Image {
  const void *data, *offset, *mask;
};

// The point that kernel element `element` of deformable group `group` reads for an output.
template <class C>
struct Point {
  enum Kind { kInside, kOutside, kNaN } kind;
  mxlite::cpu::Neighbours<C> near;
  C factor = C(1);

  __device__ Point(const Geometry& g, const Image& image, int64_t group, int64_t element,
                   int64_t position) {
    const int64_t index = group * g.elements + element;
    const int64_t row = position / g.out_width, column = position % g.out_width;
    const SpatialWindow& w = g.window;
    const int64_t y0 = row * w.stride[1] - w.pad[1] + element / w.kernel[2] * w.dilate[1];
    const int64_t x0 = column * w.stride[2] - w.pad[2] + element % w.kernel[2] * w.dilate[2];
    const auto moved = [&](int64_t start, int64_t axis) {
      return static_cast<C>(start) +
             load_as<C>(image.offset, g.dtype, (2 * index + axis) * g.positions + position);
    };
    const C y = moved(y0, 0), x = moved(x0, 1);
    const C height = static_cast<C>(g.height), width = static_cast<C>(g.width);
    const bool inside =
        (g.modulated ? y > -1 && x > -1 : y >= 0 && x >= 0) && y < height && x < width;
    kind = inside ? kInside : x != x || y != y ? kNaN : kOutside;
    if (g.modulated) factor = load_as<C>(image.mask, g.dtype, index * g.positions + position);
    if (!inside) return;
    if (g.modulated)
      near = mxlite::cpu::zero_padded(y, x, g.height, g.width);
    else
      near = mxlite::cpu::combine(mxlite::cpu::clamped(y, g.height),
                                  mxlite::cpu::clamped(x, g.width), g.width);
  }
};

// col[(c, element), position] = image[c] interpolated at the point, times the factor. One thread
// per point, for all channels of its deformable group.
template <class C>
__global__ void unfold_moved(int64_t n, const __grid_constant__ Geometry g, Image image, C* col) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t position = i % g.positions, element = i / g.positions % g.elements;
    const int64_t group = i / g.positions / g.elements;
    const Point<C> point(g, image, group, element, position);
    for (int64_t k = 0; k < g.group_channels; ++k) {
      const int64_t c = group * g.group_channels + k;
      C value = point.kind == Point<C>::kNaN ? std::numeric_limits<C>::quiet_NaN() : C(0);
      if (point.kind == Point<C>::kInside)
        for (int q = 0; q < 4; ++q)
          value += point.near.weight[q] *
                   load_as<C>(image.data, g.dtype, c * g.plane + point.near.at[q]);
      col[(c * g.elements + element) * g.positions + position] = value * point.factor;
    }
  }
}

// One thread per plane adds the points in order, so that every run gives the same sums.
template <class C>
__global__ void scatter_planes(const __grid_constant__ Geometry g, Image image, const C* grad_col,
                               C* sums, void* image_grad) {
  for (int64_t c = global_index(); c < g.channels; c += grid_stride()) {
    C* const own = sums + c * g.plane;
    for (int64_t k = 0; k < g.plane; ++k) own[k] = C(0);
    for (int64_t element = 0; element < g.elements; ++element)
      for (int64_t position = 0; position < g.positions; ++position) {
        const Point<C> point(g, image, c / g.group_channels, element, position);
        if (point.kind != Point<C>::kInside) continue;
        point.near.scatter(
            own, grad_col[(c * g.elements + element) * g.positions + position] * point.factor);
      }
    for (int64_t k = 0; k < g.plane; ++k) store_as<C>(image_grad, g.dtype, c * g.plane + k, own[k]);
  }
}

// Gradients of offsets and mask: sums over the channels of a deformable group.
template <class C>
__global__ void point_gradients(int64_t n, const __grid_constant__ Geometry g, Image image,
                                const C* grad_col, void* offset_grad, void* mask_grad) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t position = i % g.positions, index = i / g.positions;
    const int64_t element = index % g.elements, group = index / g.elements;
    const Point<C> point(g, image, group, element, position);
    const bool inside = point.kind == Point<C>::kInside;
    C sums[4] = {};
    for (int64_t k = 0; inside && k < g.group_channels; ++k) {
      const int64_t c = group * g.group_channels + k;
      const C grad = grad_col[(c * g.elements + element) * g.positions + position];
      for (int q = 0; q < 4; ++q)
        sums[q] += grad * load_as<C>(image.data, g.dtype, c * g.plane + point.near.at[q]);
    }
    const int64_t to = 2 * index * g.positions + position;
    store_as<C>(offset_grad, g.dtype, to, inside ? point.near.by_y(sums) * point.factor : C(0));
    store_as<C>(offset_grad, g.dtype, to + g.positions,
                inside ? point.near.by_x(sums) * point.factor : C(0));
    if (mask_grad)
      store_as<C>(mask_grad, g.dtype, index * g.positions + position,
                  inside ? point.near.by_factor(sums) : C(0));
  }
}

template <class C>
__global__ void add_bias(int64_t n, int64_t positions, const C* sums, const void* bias, void* out,
                         DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(out, dtype, i, sums[i] + (bias ? load_as<C>(bias, dtype, i / positions) : C(0)));
}

// Arrays of a call in the compute type.
template <class C>
struct Workspace {
  C *col, *weight, *output, *grad_col = nullptr, *grad_weight = nullptr, *planes = nullptr;

  Workspace(KernelContext& ctx, const Geometry& g, bool backward) {
    const int64_t col_size = g.channels * g.elements * g.positions, weights = g.filters * g.depth;
    const int64_t sizes[] = {col_size,
                             weights,
                             g.filters * g.positions,
                             backward ? col_size : 0,
                             backward ? weights : 0,
                             backward ? g.channels * g.plane : 0};
    C** const arrays[] = {&col, &weight, &output, &grad_col, &grad_weight, &planes};
    ScratchPlan plan;
    size_t at[6];
    for (int i = 0; i < 6; ++i) at[i] = plan.add(static_cast<size_t>(sizes[i]) * sizeof(C));
    void* const block = ctx.scratch(plan.bytes());
    for (int i = 0; i < 6; ++i) *arrays[i] = part<C>(block, at[i]);
  }
};

// Returns a contiguous array of the compute type with the same shape.
template <class C>
TensorRef in_type(const TensorRef& like, C* data) {
  TensorRef t = like;
  t.data = data;
  t.dtype = DTypeOf<C>::value;
  return t;
}

Image image_of(const Geometry& g, int64_t n, const TensorRef& data, const TensorRef& offset,
               const TensorRef* mask) {
  const size_t bytes = dtype_size(g.dtype);
  const int64_t points = g.moved_groups * g.elements * g.positions;
  return {at(data.data, n * g.channels * g.plane, bytes), at(offset.data, n * 2 * points, bytes),
          mask ? at(mask->data, n * points, bytes) : nullptr};
}

template <class P>
void forward(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Geometry g(p, in[0], out[0].shape);
  constexpr size_t kWeight = kWeightInput<P>;
  const void* const bias = in.size() > kWeight + 1 ? in[kWeight + 1].data : nullptr;
  const int64_t points = g.moved_groups * g.elements * g.positions;
  const int64_t filters = g.filters / g.groups, results = g.filters * g.positions;
  dispatch_float_compute(g.dtype, [&]<class C>(C) {
    const Workspace<C> space(ctx, g, /*backward=*/false);
    convert_copy(ctx, in[kWeight], in_type(in[kWeight], space.weight));
    for (int64_t n = 0; n < in[0].shape[0]; ++n) {
      const Image image = image_of(g, n, in[0], in[1], P::kModulated ? &in[2] : nullptr);
      launch_items(ctx, unfold_moved<C>, points, points, g, image, space.col);
      gemm(ctx,
           {.dtype = DTypeOf<C>::value,
            .m = filters,
            .n = g.positions,
            .k = g.depth,
            .lda = g.depth,
            .ldb = g.positions,
            .ldc = g.positions,
            .batch = g.groups,
            .stride_a = filters * g.depth,
            .stride_b = g.depth * g.positions,
            .stride_c = filters * g.positions},
           {space.weight, space.col, space.output});
      launch_items(ctx, add_bias<C>, results, results, g.positions,
                   static_cast<const C*>(space.output), bias,
                   at(out[0].data, n * results, dtype_size(g.dtype)), g.dtype);
    }
  });
}

// `in`: output_grad, data, offset, mask if modulated, weight. `out`: gradients of all inputs except
// output_grad.
template <class P>
void backward(KernelContext& ctx, const P& p, Inputs in, Outputs out) {
  const Geometry g(p, in[1], in[0].shape);
  constexpr size_t kWeight = kWeightInput<P>;
  const size_t bytes = dtype_size(g.dtype);
  const int64_t points = g.moved_groups * g.elements * g.positions;
  const int64_t filters = g.filters / g.groups, results = g.filters * g.positions;
  dispatch_float_compute(g.dtype, [&]<class C>(C) {
    const Workspace<C> space(ctx, g, /*backward=*/true);
    const int64_t weights = in[kWeight + 1].size();
    convert_copy(ctx, in[kWeight + 1], in_type(in[kWeight + 1], space.weight));
    zero_bytes(ctx, space.grad_weight, static_cast<size_t>(weights) * sizeof(C));
    for (int64_t n = 0; n < in[1].shape[0]; ++n) {
      const Image image = image_of(g, n, in[1], in[2], P::kModulated ? &in[3] : nullptr);
      launch_items(ctx, unfold_moved<C>, points, points, g, image, space.col);
      TensorRef grad = in[0];
      grad.shape = {results};
      grad.strides = {1};
      grad.data = at(in[0].data, n * results, bytes);
      convert_copy(ctx, grad, in_type(grad, space.output));
      Gemm to_weight{.dtype = DTypeOf<C>::value,
                     .trans_b = true,
                     .m = filters,
                     .n = g.depth,
                     .k = g.positions,
                     .lda = g.positions,
                     .ldb = g.positions,
                     .ldc = g.depth,
                     .batch = g.groups,
                     .stride_a = filters * g.positions,
                     .stride_b = g.depth * g.positions,
                     .stride_c = filters * g.depth,
                     .beta = 1};
      gemm(ctx, to_weight, {space.output, space.col, space.grad_weight});
      Gemm to_col{.dtype = DTypeOf<C>::value,
                  .trans_a = true,
                  .m = g.depth,
                  .n = g.positions,
                  .k = filters,
                  .lda = g.depth,
                  .ldb = g.positions,
                  .ldc = g.positions,
                  .batch = g.groups,
                  .stride_a = filters * g.depth,
                  .stride_b = filters * g.positions,
                  .stride_c = g.depth * g.positions};
      gemm(ctx, to_col, {space.weight, space.output, space.grad_col});
      const C* const grad_col = space.grad_col;
      launch_items(ctx, scatter_planes<C>, g.channels, g, image, grad_col, space.planes,
                   at(out[0].data, n * g.channels * g.plane, bytes));
      launch_items(ctx, point_gradients<C>, points, points, g, image, grad_col,
                   at(out[1].data, n * 2 * points, bytes),
                   P::kModulated ? at(out[2].data, n * points, bytes) : nullptr);
    }
    convert_copy(ctx, in_type(out[kWeight], space.grad_weight), out[kWeight]);
  });
}

template <class P>
void register_one(OpRegistry& ops, const char* forward_name, const char* backward_name) {
  ops.cuda_kernel<&forward<P>>(forward_name);
  ops.cuda_kernel<&backward<P>>(backward_name);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  cuda::register_one<DeformableConvolutionParams>(ops, "_contrib_DeformableConvolution",
                                                  "_deformable_convolution_backward");
  cuda::register_one<ModulatedDeformableConvolutionParams>(
      ops, "_contrib_ModulatedDeformableConvolution", "_modulated_deformable_convolution_backward");
});

}  // namespace mxlite::cuda
