// Interleaved attention products: strided matrix products, one per head and sample.
#include <cmath>

#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/matrix/gemm.h"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/nn/attention_parts.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Computes c = alpha * op(a) op(b).
void multiply(KernelContext& ctx, const AttentionPart& a, bool trans_a, const AttentionPart& b,
              bool trans_b, const AttentionPart& c, double alpha = 1) {
  if (c.count * c.length * c.d == 0) return;
  gemm(ctx,
       {.dtype = a.dtype,
        .trans_a = trans_a,
        .trans_b = trans_b,
        .m = c.length,
        .n = c.d,
        .k = trans_a ? a.length : a.d,
        .lda = a.row,
        .ldb = b.row,
        .ldc = c.row,
        .batch = c.count,
        .stride_a = a.stride,
        .stride_b = b.stride,
        .stride_c = c.stride,
        .alpha = alpha},
       {a.data, b.data, c.data});
}

void self_qk(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  const AttentionPart q = part_of(in[0], p.heads, 3, 0), k = part_of(in[0], p.heads, 3, 1);
  multiply(ctx, q, false, k, true, scores_of(out[0]), query_scale(q));
}
void enc_qk(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  const AttentionPart q = part_of(in[0], p.heads, 1, 0), k = part_of(in[1], p.heads, 2, 0);
  multiply(ctx, q, false, k, true, scores_of(out[0]), query_scale(q));
}
void self_value(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  multiply(ctx, scores_of(in[1]), false, part_of(in[0], p.heads, 3, 2), false,
           part_of(out[0], p.heads, 1, 0));
}
void enc_value(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  multiply(ctx, scores_of(in[1]), false, part_of(in[0], p.heads, 2, 1), false,
           part_of(out[0], p.heads, 1, 0));
}

// For scores = scale q k^T and gradient g: dq = scale g k, dk = scale g^T q.
void self_qk_backward(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const AttentionPart g = scores_of(in[0]);
  const AttentionPart q = part_of(in[1], p.heads, 3, 0), k = part_of(in[1], p.heads, 3, 1);
  multiply(ctx, g, false, k, false, part_of(out[0], p.heads, 3, 0), query_scale(q));
  multiply(ctx, g, true, q, false, part_of(out[0], p.heads, 3, 1), query_scale(q));
}
void enc_qk_backward(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[1].data, out[1].bytes());
  const AttentionPart g = scores_of(in[0]);
  const AttentionPart q = part_of(in[1], p.heads, 1, 0), k = part_of(in[2], p.heads, 2, 0);
  multiply(ctx, g, false, k, false, part_of(out[0], p.heads, 1, 0), query_scale(q));
  multiply(ctx, g, true, q, false, part_of(out[1], p.heads, 2, 0), query_scale(q));
}
// For output = a v and gradient g: dv = a^T g, da = g v^T.
template <int64_t parts>
void value_backward(KernelContext& ctx, const InterleavedParams& p, Inputs in, Outputs out) {
  zero_bytes(ctx, out[0].data, out[0].bytes());
  const AttentionPart g = part_of(in[0], p.heads, 1, 0);
  multiply(ctx, scores_of(in[2]), true, g, false, part_of(out[0], p.heads, parts, parts - 1));
  multiply(ctx, g, false, part_of(in[1], p.heads, parts, parts - 1), true, scores_of(out[1]));
}

template <class C>
__global__ void divide_by(int64_t n, C root, const void* x, void* y, DType dtype) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(y, dtype, i, load_as<C>(x, dtype, i) / root);
}
void div_sqrt_dim(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = in[0].size();
  const double root = std::sqrt(static_cast<double>(in[0].shape.back()));
  if (in[0].dtype == DType::kFloat64)
    launch_items(ctx, divide_by<double>, n, n, root, in[0].data, out[0].data, in[0].dtype);
  else
    launch_items(ctx, divide_by<float>, n, n, static_cast<float>(root), in[0].data, out[0].data,
                 in[0].dtype);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  const std::string prefix = "_contrib_interleaved_matmul_";
  ops.cuda_kernel<&self_qk>(prefix + "selfatt_qk");
  ops.cuda_kernel<&self_value>(prefix + "selfatt_valatt");
  ops.cuda_kernel<&enc_qk>(prefix + "encdec_qk");
  ops.cuda_kernel<&enc_value>(prefix + "encdec_valatt");
  ops.cuda_kernel<&self_qk_backward>(prefix + "selfatt_qk_backward");
  ops.cuda_kernel<&value_backward<3>>(prefix + "selfatt_valatt_backward");
  ops.cuda_kernel<&enc_qk_backward>(prefix + "encdec_qk_backward");
  ops.cuda_kernel<&value_backward<2>>(prefix + "encdec_valatt_backward");
  ops.cuda_kernel<&div_sqrt_dim>("_contrib_div_sqrt_dim");
});

}  // namespace mxlite::cuda
