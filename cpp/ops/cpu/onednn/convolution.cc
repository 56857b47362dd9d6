// Eager convolutions: inputs and outputs are plain arrays, which are reordered to and from oneDNN's
// layouts.
#include "cpp/ops/cpu/onednn/convolution.h"

#include "cpp/ops/cpu/onednn/float_copies.h"
#include "cpp/ops/registration.h"

namespace mxlite::onednn {
namespace {

Key& add_window(Key& key, const ConvolutionParams& p) {
  return key.add(p.kernel)
      .add(p.stride)
      .add(p.dilate)
      .add(p.pad)
      .add(p.num_group)
      .add(int64_t{p.channels_last()});
}

PrimitiveCallRef prepare_forward(const ConvolutionParams& p, SpecSpan in, SpecSpan out) {
  Key key("Convolution");
  add_window(key, p).add(in[0]).add(out[0]).add(static_cast<int64_t>(in.size()));
  return cached_call("Convolution", key, [&] {
    const ConvDescs d = describe(p, in[0].shape, out[0].shape, in[0].dtype, in.size() > 2);
    const auto pd = forward_desc(d, d.any_data(), d.any_weight(), d.any_output(),
                                 /*training=*/false, user_scratchpad());
    if (!pd.get(true)) return PrimitiveCall();
    return PrimitiveCall(pd, {{DNNL_ARG_SRC, d.data},
                              {DNNL_ARG_WEIGHTS, d.weight},
                              {DNNL_ARG_DST, d.output, /*output=*/true}});
  });
}

void forward(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  prepare_forward(p, specs_of(in), specs_of(out))
      ->run(ctx, {{DNNL_ARG_SRC, in[0].data},
                  {DNNL_ARG_WEIGHTS, in[1].data},
                  {DNNL_ARG_BIAS, in.size() > 2 ? in[2].data : nullptr},
                  {DNNL_ARG_DST, out[0].data}});
}

PrimitiveCallRef prepare_backward_data(const ConvolutionDataGradParams& p, SpecSpan in,
                                       SpecSpan out) {
  Key key("_convolution_backward_data");
  add_window(key, p).add(in[0]).add(out[0]);
  return cached_call("_convolution_backward_data", key, [&] {
    const ConvDescs d = describe(p, out[0].shape, in[0].shape, in[0].dtype, /*bias=*/false);
    const auto pd = backward_data_desc(d, d.any_data(), d.any_weight(), d.any_output());
    if (!pd.get(true)) return PrimitiveCall();
    return PrimitiveCall(pd, {{DNNL_ARG_DIFF_DST, d.output},
                              {DNNL_ARG_WEIGHTS, d.weight},
                              {DNNL_ARG_DIFF_SRC, d.data, /*output=*/true}});
  });
}

void backward_data(KernelContext& ctx, const ConvolutionDataGradParams& p, Inputs in, Outputs out) {
  prepare_backward_data(p, specs_of(in), specs_of(out))
      ->run(ctx, {{DNNL_ARG_DIFF_DST, in[0].data},
                  {DNNL_ARG_WEIGHTS, in[1].data},
                  {DNNL_ARG_DIFF_SRC, out[0].data}});
}

PrimitiveCallRef prepare_backward_weight(const ConvolutionParams& p, SpecSpan in, SpecSpan out) {
  Key key("_convolution_backward_weight");
  add_window(key, p).add(in[0]).add(in[1]).add(static_cast<int64_t>(out.size()));
  return cached_call("_convolution_backward_weight", key, [&] {
    const ConvDescs d = describe(p, in[1].shape, in[0].shape, in[0].dtype, out.size() > 1);
    const auto pd = backward_weight_desc(d, d.any_data(), d.any_weight(), d.any_output());
    if (!pd.get(true)) return PrimitiveCall();
    return PrimitiveCall(pd, {{DNNL_ARG_DIFF_DST, d.output},
                              {DNNL_ARG_SRC, d.data},
                              {DNNL_ARG_DIFF_WEIGHTS, d.weight, /*output=*/true}});
  });
}

void backward_weight(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  prepare_backward_weight(p, specs_of(in), specs_of(out))
      ->run(ctx, {{DNNL_ARG_DIFF_DST, in[0].data},
                  {DNNL_ARG_SRC, in[1].data},
                  {DNNL_ARG_DIFF_WEIGHTS, out[0].data},
                  {DNNL_ARG_DIFF_BIAS, out.size() > 1 ? out[1].data : nullptr}});
}

PrimitiveCallRef prepare_deconvolution(const DeconvolutionParams& p, SpecSpan in, SpecSpan out) {
  Key key("Deconvolution");
  key.add(p.kernel).add(p.stride).add(p.dilate).add(p.pad).add(p.adj).add(p.target_shape);
  key.add(p.num_group).add(int64_t{p.channels_last()}).add(in[0]).add(out[0]);
  key.add(static_cast<int64_t>(in.size()));
  return cached_call("Deconvolution", key, [&] {
    const ConvDescs d = describe(p, in[0].shape, out[0].shape, in[0].dtype, in.size() > 2);
    const auto pd =
        deconvolution_desc(d, d.any_data(), d.any_weight(), d.any_output(), user_scratchpad());
    if (!pd.get(true)) return PrimitiveCall();
    return PrimitiveCall(pd, {{DNNL_ARG_SRC, d.data},
                              {DNNL_ARG_WEIGHTS, d.weight},
                              {DNNL_ARG_DST, d.output, /*output=*/true}});
  });
}

void deconvolution(KernelContext& ctx, const DeconvolutionParams& p, Inputs in, Outputs out) {
  prepare_deconvolution(p, specs_of(in), specs_of(out))
      ->run(ctx, {{DNNL_ARG_SRC, in[0].data},
                  {DNNL_ARG_WEIGHTS, in[1].data},
                  {DNNL_ARG_BIAS, in.size() > 2 ? in[2].data : nullptr},
                  {DNNL_ARG_DST, out[0].data}});
}

}  // namespace

const char* check_common(SpecSpan inputs, SpecSpan outputs) {
  if (!computes_in(inputs[0].dtype)) return "oneDNN does not compute in this dtype on this CPU";
  for (const SpecSpan specs : {inputs, outputs})
    for (const TensorSpec& s : specs)
      if (s.shape.size() == 0) return "no elements";
  return nullptr;
}

static const Registration registration(Stage::kLibraryKernels, [](OpRegistry& ops) {
  add_kernel_for_halves<ConvolutionParams, prepare_forward, &forward>(ops, "Convolution");
  add_kernel_for_halves<ConvolutionDataGradParams, prepare_backward_data, &backward_data>(
      ops, "_convolution_backward_data");
  add_kernel_for_halves<ConvolutionParams, prepare_backward_weight, &backward_weight>(
      ops, "_convolution_backward_weight");
  add_kernel_for_halves<DeconvolutionParams, prepare_deconvolution, &deconvolution>(
      ops, "Deconvolution");
});

}  // namespace mxlite::onednn
