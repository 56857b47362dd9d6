#include "cpp/ops/cpu/nn/dot_product_attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using cpu::AttentionArray;
using cpu::AttentionCall;

AttentionArray array(const TensorRef& t) {
  return {t.data, t.dtype, t.strides[0], t.strides[1], t.strides[2], t.strides[3]};
}

// A mask with fewer axes than the scores is repeated along the leading axes.
AttentionArray mask_array(const TensorRef& t) {
  int64_t strides[4] = {};
  const int lead = 4 - t.shape.ndim();
  for (int i = 0; i < t.shape.ndim(); ++i) strides[lead + i] = t.shape[i] == 1 ? 0 : t.strides[i];
  return {t.data, t.dtype, strides[0], strides[1], strides[2], strides[3]};
}

// Reads query, key and value from position `first`, and optional inputs from position `optional`.
AttentionCall make_call(const AttentionParams& p, Inputs in, size_t first, size_t optional) {
  const TensorRef &q = in[first], &k = in[first + 1], &v = in[first + 2];
  AttentionCall c;
  c.batch = q.shape[0];
  c.heads = q.shape[1];
  c.key_heads = k.shape[1];
  c.q_length = q.shape[2];
  c.k_length = k.shape[2];
  c.d = q.shape[3];
  c.dv = v.shape[3];
  c.scale = p.scale_of(c.d);
  c.causal = p.causal;
  c.query = array(q);
  c.key = array(k);
  c.value = array(v);
  if (p.use_mask) c.mask = mask_array(in[optional]);
  c.lengths.assign(static_cast<size_t>(c.batch), c.k_length);
  if (p.use_length) {
    const TensorRef& t = in[in.size() - 1];
    for (int64_t b = 0; b < c.batch; ++b) {
      const int64_t at = b * t.strides[0];
      const int64_t length =
          t.dtype == DType::kInt32 ? int64_t{t.as<int32_t>()[at]} : t.as<int64_t>()[at];
      c.lengths[static_cast<size_t>(b)] = std::clamp<int64_t>(length, 0, c.k_length);
    }
  }
  return c;
}

void zero(const TensorRef& t) { std::memset(t.data, 0, t.bytes()); }

template <class T>
void run_forward(KernelContext& ctx, const AttentionCall& c) {
  const cpu::AttentionPlan plan = cpu::plan_attention_forward<T>(c);
  cpu::attention_forward<T>(c, plan, ctx.scratch(plan.bytes(c)));
}

template <class T>
void run_backward(KernelContext& ctx, const AttentionCall& c) {
  const cpu::AttentionPlan plan = cpu::plan_attention_backward<T>(c);
  cpu::attention_backward<T>(c, plan, ctx.scratch(plan.bytes(c)));
}

// Calls fn(T{}) with the type in which a call is computed (attention_blocks.h).
void with_compute_type(DType dtype, auto&& fn) {
  if (dtype == DType::kFloat64)
    fn(double{});
  else if (dtype == DType::kBFloat16 && cpu::has_bfloat16_attention())
    fn(bfloat16{});
  else
    fn(float{});
}

template <class T>
void fill_masked(const TensorRef& log_sum) {
  std::fill_n(log_sum.as<T>(), log_sum.size(), std::numeric_limits<T>::infinity());
}

}  // namespace

namespace cpu {

void run_attention(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  out[2].as<int64_t>()[0] = static_cast<int64_t>(ctx.random.seed);
  out[2].as<int64_t>()[1] = static_cast<int64_t>(ctx.random.offset);
  const bool wide = out[1].dtype == DType::kFloat64;
  AttentionCall c = make_call(p, in, 0, 3);
  if (out[0].size() == 0 || c.k_length == 0) {
    zero(out[0]);
    wide ? fill_masked<double>(out[1]) : fill_masked<float>(out[1]);
    return;
  }
  if (ctx.training) c.dropout = p.dropout;
  c.random = ctx.random;
  c.output = array(out[0]);
  c.log_sum = out[1].data;
  with_compute_type(in[0].dtype, [&]<class T>(T) { run_forward<T>(ctx, c); });
}

void run_attention_backward(KernelContext& ctx, const AttentionParams& p, Inputs in, Outputs out) {
  AttentionCall c = make_call(p, in, 1, 7);
  if (in[0].size() == 0 || c.k_length == 0) {
    for (const TensorRef& grad : out) zero(grad);
    return;
  }
  c.dropout = p.dropout;
  const int64_t* const state = in[6].as<int64_t>();
  c.random = {static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[in[6].strides[0]])};
  c.output_grad = array(in[0]);
  c.output = array(in[4]);
  c.log_sum = in[5].data;
  c.query_grad = array(out[0]);
  c.key_grad = array(out[1]);
  c.value_grad = array(out[2]);
  with_compute_type(in[1].dtype, [&]<class T>(T) { run_backward<T>(ctx, c); });
}

}  // namespace cpu

namespace {

void attention_dropout_native(KernelContext&, const AttentionDropoutParams& p, Inputs in,
                              Outputs out) {
  const int64_t* const words = in[0].as<int64_t>();
  const RandomState state{static_cast<uint64_t>(words[0]),
                          static_cast<uint64_t>(words[in[0].strides[0]])};
  const int64_t keys = p.shape[3];
  dispatch_floating("_dot_product_attention_dropout", p.dtype, [&]<class T>(T) {
    T* const factors = out[0].as<T>();
    cpu::parallel_for(out[0].size(), 64, [&](int64_t i) {
      factors[i] = static_cast<T>(
          attention_dropout::factor(attention_dropout::bits(state, i / keys, i % keys), p.p));
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  const Kernel fused{.strided_inputs = true, .inline_ok = false};
  ops.cpu_kernel<cpu::flushing<cpu::run_attention>>("_contrib_dot_product_attention", fused);
  ops.cpu_kernel<cpu::flushing<cpu::run_attention_backward>>(
      "_dot_product_attention_backward", {.strided_inputs = true, .inline_ok = false});
  ops.cpu_kernel<attention_dropout_native>("_dot_product_attention_dropout", fused);
});

}  // namespace mxlite
