// repeat and tile are copies whose source step is 0 along the axis of repetitions.
#include "cpp/ops/tensor/repeat.h"

#include "cpp/ops/cuda/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

void repeat(KernelContext& ctx, const RepeatParams& p, Inputs in, Outputs out) {
  const RepeatView v = repeat_view(p, in[0].shape);
  Walk<2> walk;
  walk.add(v.outer, {v.length * p.repeats * v.inner, v.length * v.inner});
  walk.add(v.length, {p.repeats * v.inner, v.inner});
  walk.add(p.repeats, {v.inner, 0});
  walk.add(v.inner, {1, 1});
  walk.finish();
  strided_copy(ctx, dtype_size(in[0].dtype), walk, out[0].data, in[0].data);
}

void tile(KernelContext& ctx, const TileParams& p, Inputs in, Outputs out) {
  const int ndim = out[0].shape.ndim();
  const int in_lead = ndim - in[0].shape.ndim(), reps_lead = ndim - p.reps.ndim();
  Walk<2> walk;
  for (int i = 0; i < ndim; ++i) {
    const int64_t length = i >= in_lead ? in[0].shape[i - in_lead] : 1;
    const int64_t reps = i >= reps_lead ? p.reps[i - reps_lead] : 1;
    walk.add(reps, {out[0].strides[i] * length, 0});
    walk.add(length, {out[0].strides[i], i >= in_lead ? in[0].strides[i - in_lead] : 0});
  }
  walk.finish();
  strided_copy(ctx, dtype_size(in[0].dtype), walk, out[0].data, in[0].data);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::repeat>("repeat");
  ops.cuda_kernel<&cuda::tile>("tile", {.strided_inputs = true});
});

}  // namespace mxlite::cuda
