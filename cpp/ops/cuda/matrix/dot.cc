#include "cpp/ops/matrix/dot.h"

#include "cpp/ops/cuda/matrix/padded_gemm.h"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void dot(KernelContext& ctx, const DotParams& p, Inputs in, Outputs out) {
  const MatrixSizes s = dot_sizes(p, in[0].shape, in[1].shape);
  padded_gemm(ctx,
              {.dtype = in[0].dtype,
               .trans_a = p.transpose_a,
               .trans_b = p.transpose_b,
               .m = s.m,
               .n = s.n,
               .k = s.k,
               .lda = p.transpose_a ? s.m : s.k,
               .ldb = p.transpose_b ? s.k : s.n,
               .ldc = s.n},
              {in[0].data, in[1].data, out[0].data});
}

void numpy_dot(KernelContext& ctx, const DotParams& p, Inputs in, Outputs out) {
  if (in[1].shape.ndim() <= 2) return dot(ctx, p, in, out);
  const MatrixSizes s = numpy_dot_sizes(in[0].shape, in[1].shape);
  gemm(ctx,
       {.dtype = in[0].dtype,
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .lda = s.k,
        .ldb = s.n,
        .ldc = s.batch * s.n,
        .batch = s.batch,
        .stride_b = s.k * s.n,
        .stride_c = s.n},
       {in[0].data, in[1].data, out[0].data});
}

void batch_dot(KernelContext& ctx, const DotParams& p, Inputs in, Outputs out) {
  const MatrixSizes s = batch_dot_sizes(p, in[0].shape, in[1].shape);
  gemm(ctx,
       {.dtype = in[0].dtype,
        .trans_a = p.transpose_a,
        .trans_b = p.transpose_b,
        .m = s.m,
        .n = s.n,
        .k = s.k,
        .lda = p.transpose_a ? s.m : s.k,
        .ldb = p.transpose_b ? s.k : s.n,
        .ldc = s.n,
        .batch = s.batch,
        .stride_a = s.m * s.k,
        .stride_b = s.k * s.n,
        .stride_c = s.m * s.n},
       {in[0].data, in[1].data, out[0].data});
}

// Returns the step between matrices along each leading axis, 0 where the operand is broadcast.
Strides batch_steps(const Shape& shape, const Shape& batch, int64_t matrix_size) {
  Strides steps = Strides::filled(batch.ndim(), 0);
  const int lead = batch.ndim() - (shape.ndim() - 2);
  int64_t step = matrix_size;
  for (int i = shape.ndim() - 3; i >= 0; --i) {
    if (shape[i] != 1) steps[i + lead] = step;
    step *= shape[i];
  }
  return steps;
}

void matmul(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Shape lhs = in[0].shape.ndim() > 1 ? in[0].shape : Shape{1, in[0].shape[0]};
  const Shape rhs = in[1].shape.ndim() > 1 ? in[1].shape : Shape{in[1].shape[0], 1};
  const MatrixSizes s = batch_dot_sizes({}, lhs, rhs);
  Gemm g{.dtype = in[0].dtype, .m = s.m, .n = s.n, .k = s.k, .lda = s.k, .ldb = s.n, .ldc = s.n};
  if (rhs.ndim() == 2) {  // one product with all rows of lhs suffices
    g.m *= s.batch;
    return padded_gemm(ctx, g, {in[0].data, in[1].data, out[0].data});
  }
  const Shape batch = broadcast_shapes("_matmul", Shape(lhs.span().first(lhs.ndim() - 2)),
                                       Shape(rhs.span().first(rhs.ndim() - 2)));
  const Strides lhs_steps = batch_steps(lhs, batch, s.m * s.k);
  const Strides rhs_steps = batch_steps(rhs, batch, s.k * s.n);
  // The last leading axis is cuBLASLt's batch; this function iterates over the other leading axes.
  const int last = batch.ndim() - 1;
  const int64_t outer = batch.size() / batch[last];
  const size_t bytes = dtype_size(in[0].dtype);
  g.batch = batch[last];
  g.stride_a = lhs_steps[last];
  g.stride_b = rhs_steps[last];
  g.stride_c = s.m * s.n;
  for (int64_t o = 0; o < outer; ++o) {
    int64_t lhs_at = 0, rhs_at = 0, rest = o;
    for (int i = last - 1; i >= 0; --i) {
      lhs_at += rest % batch[i] * lhs_steps[i];
      rhs_at += rest % batch[i] * rhs_steps[i];
      rest /= batch[i];
    }
    gemm(ctx, g,
         {at(in[0].data, lhs_at, bytes), at(in[1].data, rhs_at, bytes),
          at(out[0].data, o * g.batch * g.stride_c, bytes)});
  }
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::dot>("dot");
  ops.cuda_kernel<&cuda::numpy_dot>("_np_dot");
  ops.cuda_kernel<&cuda::batch_dot>("batch_dot");
  ops.cuda_kernel<&cuda::matmul>("_matmul");
});

}  // namespace mxlite::cuda
