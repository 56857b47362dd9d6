#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/matrix/linalg.h"

namespace mxlite {
namespace cuda {
namespace {

__global__ void scale_array(int64_t n, double factor, const void* from, void* to, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_any(to, dtype, i, factor * load_any<double>(from, dtype, i));
}

// out = alpha op(a) op(b) + beta c; c lies as out does and is not read where beta is 0.
template <class P>
void multiply(KernelContext& ctx, const char* op, const P& p, const TensorRef& a,
              const TensorRef& b, const TensorRef& out, double beta, const void* c) {
  const int64_t n = out.size();
  if (n == 0) return;
  const MatrixView va = matrix_view(op, a.shape, p.axis), vb = matrix_view(op, b.shape, p.axis);
  const MatrixView vo = matrix_view(op, out.shape, p.axis);
  Gemm g{.dtype = a.dtype,
         .trans_a = p.transpose_a,
         .trans_b = p.transpose_b,
         .m = vo.rows,
         .n = vo.cols,
         .k = p.transpose_a ? va.rows : va.cols,
         .lda = va.middle * va.cols,
         .ldb = vb.middle * vb.cols,
         .ldc = vo.middle * vo.cols,
         .batch = vo.middle,
         .stride_a = va.cols,
         .stride_b = vb.cols,
         .stride_c = vo.cols,
         .alpha = p.alpha,
         .beta = beta};
  if (g.k == 0)
    return beta != 0 ? launch_items(ctx, scale_array, n, n, beta, c, out.data, out.dtype)
                     : zero_bytes(ctx, out.data, out.bytes());
  const auto size = [](const MatrixView& v) { return v.rows * v.middle * v.cols; };
  int64_t calls = vo.outer;
  if (vo.middle == 1) {
    g.batch = vo.outer;
    g.stride_a = size(va);
    g.stride_b = size(vb);
    g.stride_c = size(vo);
    calls = 1;
  }
  const size_t bytes = dtype_size(a.dtype);
  for (int64_t i = 0; i < calls; ++i)
    gemm(ctx, g,
         {.a = at(a.data, i * size(va), bytes),
          .b = at(b.data, i * size(vb), bytes),
          .c = at(out.data, i * size(vo), bytes),
          .addend = beta != 0 ? at(c, i * size(vo), bytes) : nullptr});
}

void linalg_gemm(KernelContext& ctx, const LinalgGemmParams& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_gemm", p, in[0], in[1], out[0], p.beta, in[2].data);
}

void linalg_gemm2(KernelContext& ctx, const LinalgGemm2Params& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_gemm2", p, in[0], in[1], out[0], 0, nullptr);
}

void linalg_syrk(KernelContext& ctx, const LinalgSyrkParams& p, Inputs in, Outputs out) {
  multiply(ctx, "linalg_syrk", LinalgGemm2Params{p.transpose, !p.transpose, p.alpha}, in[0], in[0],
           out[0], 0, nullptr);
}

template <class T>
__global__ void copy_triangles(int64_t count, int64_t n, bool lower, const T* from, T* to) {
  for (int64_t i = global_index(); i < count; i += grid_stride()) {
    const int64_t row = i / n % n, column = i % n;
    to[i] = (lower ? column <= row : column >= row) ? from[i] : T(0);
  }
}
template <class T>
void take_triangles(KernelContext& ctx, const TensorRef& from, bool lower, void* to) {
  const int64_t count = from.size();
  launch_items(ctx, copy_triangles<T>, count, count, from.shape.back(), lower, from.as<T>(),
               static_cast<T*>(to));
}

void take_triangles(KernelContext& ctx, const TensorRef& from, bool lower, void* to) {
  if (from.dtype == DType::kFloat64)
    take_triangles<double>(ctx, from, lower, to);
  else
    take_triangles<float>(ctx, from, lower, to);
}

void linalg_trmm(KernelContext& ctx, const LinalgTriangularParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const MatrixView a = matrix_view("linalg_trmm", in[0].shape);
  const MatrixView b = matrix_view("linalg_trmm", in[1].shape);
  void* const triangle = ctx.scratch(in[0].bytes());
  take_triangles(ctx, in[0], p.lower, triangle);
  const int64_t n = a.rows, b_size = b.rows * b.cols;
  Gemm g{.dtype = in[0].dtype,
         .m = b.rows,
         .n = b.cols,
         .k = n,
         .ldc = b.cols,
         .batch = a.outer,
         .stride_c = b_size,
         .alpha = p.alpha};
  (p.rightside ? g.trans_b : g.trans_a) = p.transpose;
  (p.rightside ? g.ldb : g.lda) = n;
  (p.rightside ? g.stride_b : g.stride_a) = n * n;
  (p.rightside ? g.lda : g.ldb) = b.cols;
  (p.rightside ? g.stride_a : g.stride_b) = b_size;
  if (p.rightside)
    gemm(ctx, g, {in[1].data, triangle, out[0].data});
  else
    gemm(ctx, g, {triangle, in[1].data, out[0].data});
}

void linalg_triangle(KernelContext& ctx, const LinalgTrianParams& p, Inputs in, Outputs out) {
  take_triangles(ctx, in[0], p.is_lower(), out[0].data);
}

}  // namespace
}  // namespace cuda

void register_linalg_gemm_cuda(OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  ops.kernel<&cuda::linalg_gemm>("linalg_gemm", kCUDA);
  ops.kernel<&cuda::linalg_gemm2>("linalg_gemm2", kCUDA);
  ops.kernel<&cuda::linalg_syrk>("linalg_syrk", kCUDA);
  ops.kernel<&cuda::linalg_trmm>("linalg_trmm", kCUDA);
  ops.kernel<&cuda::linalg_triangle>("_linalg_triangle", kCUDA);
}

}  // namespace mxlite
