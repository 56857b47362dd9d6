#include "cpp/ops/nn/margin_logsumexp.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kMarginLogsumexpOp = "_contrib_margin_logsumexp";
constexpr const char* kMarginLogsumexpBackwardOp = "_contrib_margin_logsumexp_backward";

Specs infer_margin_logsumexp(const MarginLogsumexpParams&, std::span<const TensorSpec> in) {
  MX_CHECK_DTYPE(in[0].dtype == DType::kFloat32 || in[0].dtype == DType::kFloat64,
                 kMarginLogsumexpOp, ": data must be float32 or float64, got ", in[0].dtype);
  check_min_ndim(kMarginLogsumexpOp, in[0].shape, 1);
  Shape rows = in[0].shape;
  rows.erase(rows.ndim() - 1);
  check_param_shape(kMarginLogsumexpOp, "position", in[1], rows, in[0].shape);
  const TensorSpec row{rows, in[0].dtype};
  return Specs{row, row, row};
}

Specs infer_margin_logsumexp_backward(const MarginLogsumexpParams& p,
                                      std::span<const TensorSpec> in) {
  const TensorSpec row = infer_margin_logsumexp(p, in.first(2))[0];
  for (size_t i = 2; i < in.size(); ++i)
    MX_CHECK_SHAPE(may_equal(in[i].shape, row.shape) && in[i].dtype == row.dtype,
                   kMarginLogsumexpBackwardOp, ": input ", i, " must be ", row.dtype, row.shape,
                   ", got ", in[i].dtype, in[i].shape);
  return Specs{in[0]};
}

std::vector<ValueRef> margin_logsumexp_gradient(GradBuilder& g) {
  return {g.emit_all(kMarginLogsumexpBackwardOp,
                     {{g.input(0), g.input(1), g.output(0), g.output(1), g.output_grad(1),
                       g.output_grad(2)}},
                     g.params_ref())[0],
          {}};
}

}  // namespace

static const Registration margin_logsumexp_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<MarginLogsumexpParams>(kMarginLogsumexpOp)
              .doc("Computes three statistics of the logits z = scale * data along the last axis, "
                   "after a margin is applied at `position`: h, a value near the largest logit, "
                   "which has no gradient; log(sum(exp(z - h))); and z - h at `position`, or -inf "
                   "if `position` is outside of the axis. The second result minus the third is the "
                   "cross entropy. If each process holds some of the classes, the cross entropy "
                   "over all classes follows from the results of all processes.")
              .shapes("data (..., classes), position (...) -> 3 x (...)")
              .inputs({"data", "position"})
              .outputs(3)
              .infer(infer_margin_logsumexp)
              .gradient(margin_logsumexp_gradient)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<MarginLogsumexpParams>(kMarginLogsumexpBackwardOp)
              .doc("Gradient of margin_logsumexp for data; `highest` and `logsumexp` are the first "
                   "two results of margin_logsumexp. The output may overwrite data.")
              .shapes("data (..., classes), others (...) -> (..., classes)")
              .inputs({"data", "position", "highest", "logsumexp", "logsumexp_grad", "target_grad"})
              .infer(infer_margin_logsumexp_backward)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
