// Copying operators: copies, conversions, reshapes, broadcasts.
#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/cast.h"
#include "cpp/ops/tensor/reshape.h"
#include "cpp/ops/tensor/reshape_to.h"

namespace mxlite::cuda {
namespace {

template <class P>
void copy_all(KernelContext& ctx, const P&, Inputs in, Outputs out) {
  for (size_t i = 0; i < out.size(); ++i)
    if (in[i].data != out[i].data || in[i].dtype != out[i].dtype) convert_copy(ctx, in[i], out[i]);
}

void copy_together(KernelContext& ctx, const AmpMulticastParams&, Inputs in, Outputs out) {
  convert_copies(ctx, in, out);
}

template <class P>
void reshape(KernelContext& ctx, const P&, Inputs in, Outputs out) {
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
}

void broadcast(KernelContext& ctx, const void*, Inputs in, Outputs out) {
  const TensorRef &from = in[0], &to = out[0];
  strided_copy(ctx, dtype_size(to.dtype), to.shape, to.data, to.strides, from.data,
               broadcast_strides(from.shape, from.strides, to.shape));
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  for (const char* op : {"_copy", "_copyto", "BlockGrad", "make_loss"})
    ops.cuda_kernel<&copy_all<NoParams>>(op, kStrided);
  for (const char* op : {"Cast", "amp_cast"}) ops.cuda_kernel<&copy_all<CastParams>>(op, kStrided);
  ops.cuda_kernel<&copy_together>("amp_multicast", kStrided);
  ops.cuda_kernel<&reshape<ReshapeParams>>("Reshape");
  for (const char* op : {"Flatten", "_identity_with_attr_like_rhs"})
    ops.cuda_kernel<&reshape<NoParams>>(op);
  ops.cuda_kernel<&reshape<ExpandDimsParams>>("expand_dims");
  ops.cuda_kernel<&reshape<SqueezeParams>>("squeeze");
  ops.cuda_kernel<&reshape<ReshapeLikeParams>>("reshape_like");
  ops.cuda_kernel<&reshape<ReshapeToParams>>("_reshape_to");
  for (const char* op : {"broadcast_to", "broadcast_axis", "broadcast_like"})
    ops.add_kernel(op, kCUDA, {.run = &broadcast, .strided_inputs = true});
});

}  // namespace mxlite::cuda
