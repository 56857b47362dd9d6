// Element-wise functions for all dtypes, and element-wise functions with parameters.
#include "cpp/ops/cpu/pointwise/tables.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace pointwise {
namespace {

// Parameters in the loop's compute type.
struct UnaryArgs {
  alignas(8) std::byte bytes[16];
  UnaryArgs(Number first, Number second, DType dtype, Compute c) {
    load_scalar(first, dtype, c, bytes);
    load_scalar(second, dtype, c, bytes + compute_size(c));
  }
};

void clip(KernelContext&, const ClipParams& p, Inputs in, Outputs out) {
  const Compute c = compute_for<Clip>(in[0].dtype);
  const DType dtype = in[0].dtype;
  const UnaryArgs args(p.a_min.within(dtype), p.a_max.within(dtype), dtype, c);
  run_unary(kUnary<Clip>, c, in[0], out[0], args.bytes);
}

void smooth_l1(KernelContext&, const SmoothL1Params& p, Inputs in, Outputs out) {
  const Compute c = compute_for<SmoothL1>(in[0].dtype);
  const UnaryArgs args(p.scalar * p.scalar, 0, DType::kFloat64, c);
  run_unary(kUnary<SmoothL1>, c, in[0], out[0], args.bytes);
}

void hard_sigmoid(KernelContext&, const HardSigmoidParams& p, Inputs in, Outputs out) {
  const Compute c = compute_for<HardSigmoid>(in[0].dtype);
  const UnaryArgs args(p.alpha, p.beta, DType::kFloat64, c);
  run_unary(kUnary<HardSigmoid>, c, in[0], out[0], args.bytes);
}

}  // namespace
}  // namespace pointwise

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace pointwise;  // NOLINT: this folder's own names
  register_unary_kernels(ops, UnaryArithmetic{});
  ops.cpu_kernel<&clip>("clip", kStrided);
  ops.cpu_kernel<&smooth_l1>("smooth_l1", kStrided);
  ops.cpu_kernel<&hard_sigmoid>("hard_sigmoid", kStrided);
});

}  // namespace mxlite
