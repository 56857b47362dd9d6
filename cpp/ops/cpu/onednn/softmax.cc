// Eager kernels on plain arrays: softmax and log_softmax over the last axis, and LRN.
#include "cpp/ops/nn/softmax.h"

#include "cpp/ops/cpu/onednn/float_copies.h"
#include "cpp/ops/nn/lrn.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

// With fewer elements, the native loop ends before a parallel region would have started.
constexpr int64_t kSmallSoftmax = 16384;
// The native loop computes float32 rows of this length faster than oneDNN.
constexpr int64_t kLongRow = 64;

template <bool Log>
PrimitiveCallRef prepare_softmax(const SoftmaxParams& p, SpecSpan in, SpecSpan out) {
  const ChannelBlocks b = p.blocks(in[0].shape);
  if (b.inner != 1 || p.use_length || (p.temperature && *p.temperature != 1) ||
      (in[0].dtype == DType::kFloat32 && b.channels >= kLongRow) || in[0].dtype != out[0].dtype ||
      b.outer * b.channels < kSmallSoftmax)
    return nullptr;
  Key key(Log ? "log_softmax" : "softmax");
  key.add(in[0]).add(b.channels);
  return cached_call(Log ? "log_softmax" : "softmax", key, [&] {
    const Desc d = plain_desc(Shape{b.outer, b.channels}, in[0].dtype);
    apply_thread_count(memory_work(d, 4));
    const dnnl::softmax_forward::primitive_desc pd(
        engine(), dnnl::prop_kind::forward_inference,
        Log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate, d, d, 1,
        user_scratchpad(), /*allow_empty=*/true);
    return pd.get(true) ? PrimitiveCall(pd, {}) : PrimitiveCall();
  });
}

template <bool Log>
void softmax(KernelContext& ctx, const SoftmaxParams& p, Inputs in, Outputs out) {
  prepare_softmax<Log>(p, specs_of(in), specs_of(out))
      ->run(ctx, {{DNNL_ARG_SRC, in[0].data}, {DNNL_ARG_DST, out[0].data}});
}

PrimitiveCallRef prepare_lrn(const LRNParams& p, SpecSpan in, SpecSpan) {
  Key key("LRN");
  key.add(double{p.alpha}).add(double{p.beta}).add(double{p.knorm}).add(p.nsize).add(in[0]);
  return cached_call("LRN", key, [&] {
    const Desc d = plain_desc(in[0]);
    apply_thread_count(memory_work(d, 4));
    const dnnl::lrn_forward::primitive_desc pd(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels, d, d,
        p.nsize, p.alpha, p.beta, p.knorm, user_scratchpad(), /*allow_empty=*/true);
    return pd.get(true) ? PrimitiveCall(pd, {}) : PrimitiveCall();
  });
}

void lrn(KernelContext& ctx, const LRNParams& p, Inputs in, Outputs out) {
  prepare_lrn(p, specs_of(in), {})
      ->run(ctx, {{DNNL_ARG_SRC, in[0].data}, {DNNL_ARG_DST, out[0].data}});
}

}  // namespace

static const Registration registration(Stage::kLibraryKernels, [](OpRegistry& ops) {
  add_kernel<SoftmaxParams, prepare_softmax<false>, &softmax<false>>(ops, "softmax");
  add_kernel<SoftmaxParams, prepare_softmax<true>, &softmax<true>>(ops, "log_softmax");
  add_kernel_for_halves<LRNParams, prepare_lrn, &lrn>(ops, "LRN");
});

}  // namespace mxlite::onednn
