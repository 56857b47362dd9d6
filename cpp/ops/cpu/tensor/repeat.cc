// repeat and tile are strided copies whose source stride is 0 along the axis of repetitions.
#include "cpp/ops/tensor/repeat.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void repeat_native(KernelContext&, const RepeatParams& p, Inputs in, Outputs out) {
  const RepeatView v = repeat_view(p, in[0].shape);
  cpu::CopyAxes axes;
  axes.push_back({v.outer, v.length * p.repeats * v.inner, v.length * v.inner});
  axes.push_back({v.length, p.repeats * v.inner, v.inner});
  axes.push_back({p.repeats, v.inner, 0});
  axes.push_back({v.inner, 1, 1});
  cpu::strided_copy(dtype_size(in[0].dtype), axes, out[0].data, in[0].data);
}

void tile_native(KernelContext&, const TileParams& p, Inputs in, Outputs out) {
  const int ndim = out[0].shape.ndim();
  const int in_lead = ndim - in[0].shape.ndim(), reps_lead = ndim - p.reps.ndim();
  cpu::CopyAxes axes;
  for (int i = 0; i < ndim; ++i) {
    const int64_t length = i >= in_lead ? in[0].shape[i - in_lead] : 1;
    const int64_t reps = i >= reps_lead ? p.reps[i - reps_lead] : 1;
    axes.push_back({reps, out[0].strides[i] * length, 0});
    axes.push_back({length, out[0].strides[i], i >= in_lead ? in[0].strides[i - in_lead] : 0});
  }
  cpu::strided_copy(dtype_size(in[0].dtype), axes, out[0].data, in[0].data);
}

}  // namespace

static const Registration repeat_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&repeat_native>("repeat");
  ops.cpu_kernel<&tile_native>("tile", {.strided_inputs = true});
});

}  // namespace mxlite
