// Diagonals, and the block rearrangement of depth_to_space.
#include "cpp/ops/tensor/diag.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/depth_to_space.h"

namespace mxlite::cuda {
namespace {

void place(KernelContext& ctx, const DiagonalView& v, const TensorRef& from, const TensorRef& to) {
  const size_t bytes = dtype_size(to.dtype);
  zero_bytes(ctx, to.data, to.bytes());
  strided_copy(ctx, bytes, v.shape, at(to.data, v.start, bytes), v.strides, from.data,
               from.strides);
}

void diag(KernelContext& ctx, const DiagParams& p, Inputs in, Outputs out) {
  if (in[0].shape.ndim() == 1)
    return place(ctx, diagonal_view(out[0].shape, out[0].strides, p.k, 0, 1), in[0], out[0]);
  const size_t bytes = dtype_size(in[0].dtype);
  const DiagonalView v = diagonal_view(in[0].shape, in[0].strides, p.k, p.axis1, p.axis2);
  strided_copy(ctx, bytes, v.shape, out[0].data, out[0].strides, at(in[0].data, v.start, bytes),
               v.strides);
}

void diag_backward(KernelContext& ctx, const DiagBackwardParams& p, Inputs in, Outputs out) {
  place(ctx, diagonal_view(out[0].shape, out[0].strides, p.k, p.axis1, p.axis2), in[0], out[0]);
}

// `deep` is (N, b, b, C, H, W), `wide` is (N, C, H, b, W, b), and wide_shape is (N, C, H*b, W*b).
void move_blocks(KernelContext& ctx, const Shape& wide_shape, int64_t b, bool to_wide,
                 const TensorRef& from, const TensorRef& to) {
  const int64_t channels = wide_shape[1], height = wide_shape[2] / b, width = wide_shape[3] / b;
  const int64_t plane = height * width, row = width * b;
  struct Axis {
    int64_t size, deep, wide;
  };
  Walk<2> walk;
  for (const Axis& a :
       {Axis{wide_shape[0], channels * b * b * plane, channels * b * b * plane},
        Axis{b, b * channels * plane, row}, Axis{b, channels * plane, 1},
        Axis{channels, plane, b * b * plane}, Axis{height, width, b * row}, Axis{width, 1, b}})
    walk.add(a.size, {to_wide ? a.wide : a.deep, to_wide ? a.deep : a.wide});
  walk.finish();
  strided_copy(ctx, dtype_size(from.dtype), walk, to.data, from.data);
}

void depth_to_space(KernelContext& ctx, const BlockSizeParams& p, Inputs in, Outputs out) {
  move_blocks(ctx, out[0].shape, p.block_size, true, in[0], out[0]);
}
void space_to_depth(KernelContext& ctx, const BlockSizeParams& p, Inputs in, Outputs out) {
  move_blocks(ctx, in[0].shape, p.block_size, false, in[0], out[0]);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::diag>("diag", kStrided);
  ops.cuda_kernel<&cuda::diag_backward>("_diag_backward", kStrided);
  ops.cuda_kernel<&cuda::depth_to_space>("depth_to_space");
  ops.cuda_kernel<&cuda::space_to_depth>("space_to_depth");
});

}  // namespace mxlite::cuda
