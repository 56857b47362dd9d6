#include "cpp/ops/cuda/nn/batch_norm.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

BatchNormCall make_call(const KernelContext& ctx, const BatchNormParams& p, Inputs in,
                        Outputs out) {
  BatchNormCall call;
  call.blocks = channel_blocks(in[0].shape, p.axis);
  call.dtype = in[0].dtype;
  call.stats_dtype = in[1].dtype;
  call.eps = p.eps;
  call.momentum = static_cast<double>(p.momentum);
  call.fix_gamma = p.fix_gamma;
  call.batch_stats = ctx.training && !p.use_global_stats;
  call.data = in[0].data;
  call.gamma = in[1].data;
  call.beta = in[2].data;
  call.running_mean = in[3].data;
  call.running_var = in[4].data;
  call.output = out[0].data;
  call.mean = out[1].data;
  call.inv_std = out[2].data;
  return call;
}

template <bool relu>
void batch_norm(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  BatchNormCall call = make_call(ctx, p, in, out);
  call.relu = relu;
  batch_norm_forward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

void sync_batch_norm(KernelContext& ctx, const SyncBatchNormParams& p, Inputs in, Outputs out) {
  MX_CHECK_KIND(p.ndev == 1 || !ctx.training || p.use_global_stats, ErrorKind::kNotSupported,
                "_contrib_SyncBatchNorm: ndev must be 1 in training, got ", p.ndev, " for key '",
                p.key, "'; statistics of several devices are not shared");
  BatchNormCall call = make_call(ctx, p, in, out);
  call.var = out[2].data;
  call.inv_std = out[3].data;
  batch_norm_forward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

// Inputs: data, gamma, beta, mean, inverse deviation.
void relu_again(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  BatchNormCall call;
  call.blocks = channel_blocks(in[0].shape, p.axis);
  call.dtype = in[0].dtype;
  call.stats_dtype = in[1].dtype;
  call.fix_gamma = p.fix_gamma;
  call.relu = true;
  call.data = in[0].data;
  call.gamma = in[1].data;
  call.beta = in[2].data;
  call.known_mean = in[3].data;
  call.known_inv_std = in[4].data;
  call.output = out[0].data;
  batch_norm_forward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

template <bool bits>
void batch_norm_add_relu(KernelContext& ctx, const BatchNormParams& p, Inputs in, Outputs out) {
  BatchNormCall call = make_call(ctx, p, in, out);
  call.addend = in[5].data;
  call.relu = true;
  if (bits) call.relu_bits = out[3].as<uint8_t>();
  batch_norm_forward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

// The operations after normalization in the same operator; they determine backward's inputs.
enum class End { kPlain, kRelu, kAddRelu, kAddReluBits };

// Inputs: output_grad, (kAddRelu: output, kAddReluBits: bits), data, gamma, (kRelu: beta), mean,
// inverse deviation, (two_grads: other_grad).
template <End end>
void batch_norm_grad(KernelContext& ctx, const BatchNormGradParams& p, Inputs in, Outputs out) {
  constexpr bool kAdds = end == End::kAddRelu || end == End::kAddReluBits;
  constexpr size_t kData = kAdds ? 2 : 1, kGamma = kData + 1;
  constexpr size_t kMean = end == End::kRelu ? 4 : kGamma + 1;
  BatchNormGradCall call;
  call.blocks = channel_blocks(in[kData].shape, p.axis);
  call.dtype = in[kData].dtype;
  call.stats_dtype = in[kGamma].dtype;
  call.fix_gamma = p.fix_gamma;
  call.batch_stats = p.batch_stats;
  call.output_grad = in[0].data;
  call.data = in[kData].data;
  call.gamma = in[kGamma].data;
  call.mean = in[kMean].data;
  call.inv_std = in[kMean + 1].data;
  if (end == End::kAddReluBits && p.two_grads) call.other_grad = in[kMean + 2].data;
  call.data_grad = out[0].data;
  call.gamma_grad = out[1].data;
  call.beta_grad = out[2].data;
  if (end == End::kRelu) call.relu_beta = in[3].data;
  if (end == End::kAddRelu) call.relu_output = in[1].data;
  if (end == End::kAddReluBits) call.relu_bits = in[1].as<uint8_t>();
  if (kAdds) call.added_grad = out[3].data;
  batch_norm_backward(ctx, call, ctx.scratch(batch_norm_scratch_bytes(call.blocks)));
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&batch_norm<false>>("BatchNorm");
  ops.cuda_kernel<&batch_norm<true>>("_contrib_BatchNormWithReLU");
  ops.cuda_kernel<&sync_batch_norm>("_contrib_SyncBatchNorm");
  ops.cuda_kernel<&batch_norm_grad<End::kPlain>>("_batch_norm_backward");
  ops.cuda_kernel<&batch_norm<true>>("_batch_norm_relu");
  ops.cuda_kernel<&batch_norm_add_relu<false>>("_batch_norm_add_relu");
  ops.cuda_kernel<&batch_norm_add_relu<true>>("_batch_norm_add_relu_bits");
  ops.cuda_kernel<&relu_again>("_batch_norm_relu_again");
  ops.cuda_kernel<&batch_norm_grad<End::kRelu>>("_batch_norm_relu_backward");
  ops.cuda_kernel<&batch_norm_grad<End::kAddRelu>>("_batch_norm_add_relu_backward");
  ops.cuda_kernel<&batch_norm_grad<End::kAddReluBits>>("_batch_norm_add_relu_bits_backward");
});

}  // namespace mxlite::cuda
