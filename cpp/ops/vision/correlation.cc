#include "cpp/ops/vision/correlation.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kCorrelationOp = "Correlation";

Specs infer_correlation(const CorrelationParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK_DTYPE(is_floating(in[0].dtype), kCorrelationOp,
                 ": data1 must have dtype float16, bfloat16, float32 or float64, got ",
                 in[0].dtype);
  MX_CHECK_DTYPE(in[1].dtype == in[0].dtype, kCorrelationOp, ": data2 must have data1's dtype ",
                 in[0].dtype, ", got ", in[1].dtype);
  MX_CHECK_SHAPE(data.ndim() == 4, kCorrelationOp,
                 ": data1 must have 4 dimensions (batch, channels, height, width), got shape ",
                 data);
  MX_CHECK_SHAPE(may_equal(in[1].shape, data), kCorrelationOp, ": data2 must have data1's shape ",
                 data, ", got ", in[1].shape);
  MX_CHECK(p.kernel_size % 2 == 1, kCorrelationOp, ": kernel_size must be an odd number, got ",
           p.kernel_size);
  const Shape both = merged(data, in[1].shape);
  const auto patches = [&p](int64_t size) { return p.patches(size); };
  const int64_t height = if_known(patches, both[2]), width = if_known(patches, both[3]);
  MX_CHECK_SHAPE(height != 0 && width != 0, kCorrelationOp, ": data1 of shape ", data,
                 " is too small for kernel_size ", p.kernel_size, ", max_displacement ",
                 p.max_displacement, " and pad_size ", p.pad_size);
  const Shape out{both[0], checked_mul(p.displacements(), p.displacements()), height, width};
  return Specs{TensorSpec{out, in[0].dtype}};
}

}  // namespace

static const Registration correlation_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<CorrelationParams>(kCorrelationOp)
              .doc("Compares patches of data1 with displaced patches of data2: each output channel "
                   "holds the mean product for one displacement.")
              .shapes("data1, data2: (N, C, H, W) -> (N, displacements, oH, oW)")
              .inputs({"data1", "data2"})
              .infer(infer_correlation)
              .gradient([](GradBuilder& g) {
                const ValueRef inputs[] = {g.output_grad(0), g.input(0), g.input(1)};
                return g.emit_all("_correlation_backward", inputs, g.params_ref());
              })
              .amp(AmpClass::kWidest)
              .symbol({.output_names = {"output"}, .names_single_input = true})
              .total_outputs(3));
  ops.add(OpBuilder<CorrelationParams>("_correlation_backward")
              .internal()
              .doc("Gradients of Correlation for both images.")
              .inputs({"output_grad", "data1", "data2"})
              .outputs(2)
              .infer([](const CorrelationParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2]};
              }));
});

}  // namespace mxlite
