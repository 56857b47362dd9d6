#include "cpp/ops/nn/dropout.h"

#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_dropout(const DropoutParams& p, std::span<const TensorSpec> in) {
  check_floating("Dropout", "data", in[0]);
  Shape mask = in[0].shape;
  for (int64_t axis : p.axes) mask[normalize_axis("Dropout", axis, mask.ndim())] = 1;
  return Specs{in[0], TensorSpec{mask, DType::kUInt8}};
}

uint64_t counters(const DropoutParams&, std::span<const TensorSpec> out) {
  return static_cast<uint64_t>(out[1].shape.size() + 3) / 4;
}

std::vector<ValueRef> dropout_gradient(GradBuilder& g) {
  if (!g.params<DropoutParams>().is_active(g.training())) return {g.output_grad(0)};
  return {g.emit("_dropout_backward", {g.output_grad(0), g.output(1)}, g.params_ref())};
}

Specs infer_add_dropout(const DropoutParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[1] == in[0], "_dropout_add: added must have data's shape ", in[0].shape,
                 ", got ", in[1].shape);
  return infer_dropout(p, in);
}

std::vector<ValueRef> gradient_of_sum(GradBuilder& g) {
  return {dropout_gradient(g)[0], g.output_grad(0)};
}

std::vector<ValueRef> dropout_second_order(GradBuilder& g) {
  return {g.emit("_dropout_backward", {g.output_grad(0), g.input(1)}, g.params_ref()), {}};
}

}  // namespace

static const Registration dropout_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<DropoutParams>("Dropout")
          .doc("Sets random elements to 0 and multiplies the others by 1 / (1 - p); returns data "
               "unchanged in inference unless mode is 'always'.")
          .outputs(2)
          .visible_outputs(1)
          .infer(infer_dropout)
          .gradient(dropout_gradient)
          .inplace(0, 0)
          .identity([](const DropoutParams& p, bool training) { return !p.is_active(training); })
          .training_dependent()
          .random(counters)
          .symbol({.output_names = {"output"}, .names_single_input = true})
          .total_outputs(2)
          .refine(refine_like_first));
  ops.add(OpBuilder<DropoutParams>("_dropout_add")
              .internal()
              .doc("data after Dropout, plus added. The second output is Dropout's mask.")
              .inputs({"data", "added"})
              .outputs(2)
              .visible_outputs(1)
              .infer(infer_add_dropout)
              .gradient(gradient_of_sum)
              .inplace(0, 0)
              .inplace(1, 0)
              .random(counters));
  ops.add(OpBuilder<DropoutParams>("_dropout_backward")
              .internal()
              .doc("Gradient of Dropout.")
              .inputs({"output_grad", "mask"})
              .infer(same_as_input<0, DropoutParams>)
              .gradient(dropout_second_order)
              .inplace(0, 0));
});

}  // namespace mxlite
