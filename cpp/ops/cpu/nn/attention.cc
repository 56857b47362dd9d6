// Interleaved attention products: strided matrix products, one per head and sample.
#include "cpp/ops/nn/attention.h"

#include <cmath>
#include <cstring>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/attention_parts.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Computes c = alpha * op(a) op(b).
void multiply(const AttentionPart& a, bool trans_a, const AttentionPart& b, bool trans_b,
              const AttentionPart& c, double alpha = 1) {
  const int64_t k = trans_a ? a.length : a.d;
  cpu::gemm_batch(a.dtype, trans_a, trans_b, a.count, c.length, c.d, k, a.data, a.row, a.stride,
                  b.data, b.row, b.stride, c.data, c.row, c.stride, alpha, 0);
}

void self_qk_native(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  const AttentionPart q = part_of(in[0], p.heads, 3, 0), k = part_of(in[0], p.heads, 3, 1);
  multiply(q, false, k, true, scores_of(out[0]), query_scale(q));
}
void enc_qk_native(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  const AttentionPart q = part_of(in[0], p.heads, 1, 0), k = part_of(in[1], p.heads, 2, 0);
  multiply(q, false, k, true, scores_of(out[0]), query_scale(q));
}
void self_value_native(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  multiply(scores_of(in[1]), false, part_of(in[0], p.heads, 3, 2), false,
           part_of(out[0], p.heads, 1, 0));
}
void enc_value_native(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  multiply(scores_of(in[1]), false, part_of(in[0], p.heads, 2, 1), false,
           part_of(out[0], p.heads, 1, 0));
}

void zero(const TensorRef& t) { std::memset(t.data, 0, t.bytes()); }

// For scores = scale q k^T and gradient g: dq = scale g k, dk = scale g^T q.
void self_qk_backward(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  zero(out[0]);
  const AttentionPart g = scores_of(in[0]);
  const AttentionPart q = part_of(in[1], p.heads, 3, 0), k = part_of(in[1], p.heads, 3, 1);
  multiply(g, false, k, false, part_of(out[0], p.heads, 3, 0), query_scale(q));
  multiply(g, true, q, false, part_of(out[0], p.heads, 3, 1), query_scale(q));
}
void enc_qk_backward(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  zero(out[1]);
  const AttentionPart g = scores_of(in[0]);
  const AttentionPart q = part_of(in[1], p.heads, 1, 0), k = part_of(in[2], p.heads, 2, 0);
  multiply(g, false, k, false, part_of(out[0], p.heads, 1, 0), query_scale(q));
  multiply(g, true, q, false, part_of(out[1], p.heads, 2, 0), query_scale(q));
}
// For output = a v and gradient g: dv = a^T g, da = g v^T.
void value_backward(const InterleavedParams& p, Inputs in, Outputs out, int64_t parts) {
  zero(out[0]);
  const AttentionPart g = part_of(in[0], p.heads, 1, 0);
  multiply(scores_of(in[2]), true, g, false, part_of(out[0], p.heads, parts, parts - 1));
  multiply(g, false, part_of(in[1], p.heads, parts, parts - 1), true, scores_of(out[1]));
}
void self_value_backward(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  value_backward(p, in, out, 3);
}
void enc_value_backward(KernelContext&, const InterleavedParams& p, Inputs in, Outputs out) {
  value_backward(p, in, out, 2);
}

void div_sqrt_dim_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const double root = std::sqrt(static_cast<double>(in[0].shape.back()));
  dispatch_floating("div_sqrt_dim", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const T* x = in[0].as<T>();
    T* y = out[0].as<T>();
    cpu::parallel_ranges(in[0].size(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = static_cast<T>(static_cast<Acc>(x[i]) / static_cast<Acc>(root));
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  const std::string prefix = "_contrib_interleaved_matmul_";
  ops.cpu_kernel<cpu::flushing<self_qk_native>>(prefix + "selfatt_qk", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<self_value_native>>(prefix + "selfatt_valatt", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<enc_qk_native>>(prefix + "encdec_qk", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<enc_value_native>>(prefix + "encdec_valatt", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<self_qk_backward>>(prefix + "selfatt_qk_backward", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<self_value_backward>>(prefix + "selfatt_valatt_backward",
                                                     kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<enc_qk_backward>>(prefix + "encdec_qk_backward", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<enc_value_backward>>(prefix + "encdec_valatt_backward", kWorkerOnly);
  ops.cpu_kernel<div_sqrt_dim_native>("_contrib_div_sqrt_dim");
});

}  // namespace mxlite
