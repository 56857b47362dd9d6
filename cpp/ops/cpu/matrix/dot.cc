#include "cpp/ops/matrix/dot.h"

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

const char* small_dot(const DotParams& p, std::span<const TensorSpec> in,
                      std::span<const TensorSpec>) {
  const MatrixSizes s = dot_sizes(p, in[0].shape, in[1].shape);
  return cpu::is_small_gemm(s.m, s.n, s.k) ? nullptr : "large";
}

const char* small_numpy_dot(const DotParams& p, std::span<const TensorSpec> in,
                            std::span<const TensorSpec> out) {
  return in[1].shape.ndim() > 2 ? "batch" : small_dot(p, in, out);
}

void dot_native(KernelContext&, const DotParams& p, Inputs in, Outputs out) {
  const MatrixSizes s = dot_sizes(p, in[0].shape, in[1].shape);
  cpu::gemm(in[0].dtype, p.transpose_a, p.transpose_b, s.m, s.n, s.k, in[0].data,
            p.transpose_a ? s.m : s.k, in[1].data, p.transpose_b ? s.k : s.n, out[0].data, s.n);
}

void numpy_dot_native(KernelContext& ctx, const DotParams& p, Inputs in, Outputs out) {
  if (in[1].shape.ndim() <= 2) return dot_native(ctx, p, in, out);
  const MatrixSizes s = numpy_dot_sizes(in[0].shape, in[1].shape);
  cpu::gemm_batch(in[0].dtype, false, false, s.batch, s.m, s.n, s.k, in[0].data, s.k, 0, in[1].data,
                  s.n, s.k * s.n, out[0].data, s.batch * s.n, s.n);
}

const char* small_batch_dot(const DotParams& p, std::span<const TensorSpec> in,
                            std::span<const TensorSpec>) {
  const MatrixSizes s = batch_dot_sizes(p, in[0].shape, in[1].shape);
  return cpu::is_small_gemm(s.batch * s.m, s.n, s.k) ? nullptr : "large";
}

void batch_dot_native(KernelContext&, const DotParams& p, Inputs in, Outputs out) {
  const MatrixSizes s = batch_dot_sizes(p, in[0].shape, in[1].shape);
  cpu::gemm_batch(in[0].dtype, p.transpose_a, p.transpose_b, s.batch, s.m, s.n, s.k, in[0].data,
                  p.transpose_a ? s.m : s.k, s.m * s.k, in[1].data, p.transpose_b ? s.k : s.n,
                  s.k * s.n, out[0].data, s.n, s.m * s.n);
}

// Returns the steps between matrices along the broadcast leading axes; 0 where the operand has
// length 1.
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

void matmul_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const Shape lhs = in[0].shape.ndim() > 1 ? in[0].shape : Shape{1, in[0].shape[0]};
  const Shape rhs = in[1].shape.ndim() > 1 ? in[1].shape : Shape{in[1].shape[0], 1};
  MatrixSizes s = batch_dot_sizes({}, lhs, rhs);
  if (rhs.ndim() == 2) {  // one product with all rows of lhs suffices
    s.m *= s.batch;
    return cpu::gemm(in[0].dtype, false, false, s.m, s.n, s.k, in[0].data, s.k, in[1].data, s.n,
                     out[0].data, s.n);
  }
  const Shape batch = broadcast_shapes("_matmul", Shape(lhs.span().first(lhs.ndim() - 2)),
                                       Shape(rhs.span().first(rhs.ndim() - 2)));
  const Strides lhs_steps = batch_steps(lhs, batch, s.m * s.k);
  const Strides rhs_steps = batch_steps(rhs, batch, s.k * s.n);
  // gemm_batch handles the last leading axis, and this loop handles the other leading axes.
  const int last = batch.ndim() - 1;
  const int64_t inner = batch[last], outer = batch.size() / inner;
  const size_t bytes = dtype_size(in[0].dtype);
  for (int64_t o = 0; o < outer; ++o) {
    int64_t lhs_at = 0, rhs_at = 0, rest = o;
    for (int i = last - 1; i >= 0; --i) {
      lhs_at += rest % batch[i] * lhs_steps[i];
      rhs_at += rest % batch[i] * rhs_steps[i];
      rest /= batch[i];
    }
    cpu::gemm_batch(in[0].dtype, false, false, inner, s.m, s.n, s.k,
                    cpu::at(in[0].data, lhs_at, bytes), s.k, lhs_steps[last],
                    cpu::at(in[1].data, rhs_at, bytes), s.n, rhs_steps[last],
                    cpu::at(out[0].data, o * inner * s.m * s.n, bytes), s.n, s.m * s.n);
  }
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  // Small products may run in the caller's thread; other products open parallel regions.
  ops.cpu_kernel<cpu::flushing<&dot_native>>(
      "dot", {.name = "small", .supports = supports_if<&small_dot>()});
  ops.cpu_kernel<cpu::flushing<&dot_native>>("dot", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&numpy_dot_native>>(
      "_np_dot", {.name = "small", .supports = supports_if<&small_numpy_dot>()});
  ops.cpu_kernel<cpu::flushing<&numpy_dot_native>>("_np_dot", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&batch_dot_native>>(
      "batch_dot", {.name = "small", .supports = supports_if<&small_batch_dot>()});
  ops.cpu_kernel<cpu::flushing<&batch_dot_native>>("batch_dot", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<&matmul_native>>("_matmul", kWorkerOnly);
});

}  // namespace mxlite
