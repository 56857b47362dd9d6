// Positions of extreme values.
#include "cpp/ops/dimensions.h"
#include "cpp/ops/reduce/reduce.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Returns float32 as in 1.x, or data's type if it represents larger indices exactly.
DType index_dtype(DType input) {
  const bool wide = input == DType::kFloat64 || input == DType::kInt32 || input == DType::kInt64;
  return wide ? input : DType::kFloat32;
}

auto rule(const char* op, bool numpy = false) {
  return [op, numpy](const ArgParams& p, std::span<const TensorSpec> in) -> Specs {
    const Shape& shape = in[0].shape;
    std::optional<Shape> axes;
    if (p.axis) axes = Shape{*p.axis};
    const AxisMask reduced = reduced_axes(op, axes, false, shape.ndim());
    const Shape out = numpy && !p.keepdims ? shape_without(shape, reduced)
                                           : result_shape(shape, reduced, p.keepdims);
    MX_CHECK_SHAPE(reduced_size(shape, reduced) != 0 || count_elements(out) <= 0, op,
                   ": data must have at least 1 element along the searched axis, got shape ",
                   shape);
    return {{out, numpy ? DType::kInt64 : index_dtype(in[0].dtype)}};
  };
}

Specs infer_channel(const NoParams&, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[0].shape.ndim() >= 2,
                 "argmax_channel: data must have at least 2 dimensions, got shape ", in[0].shape);
  return rule("argmax_channel")({.axis = 1}, in);
}

}  // namespace

static const Registration registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<ArgParams>("argmax")
          .doc("Index of the first largest value along an axis (a NaN counts as largest), "
               "as float32 unless data is float64, int32 or int64.")
          .shapes(
              "any shape -> data without the axes `axis`, or with size 1 there (`keepdims=True`)")
          .infer(rule("argmax"))
          .zero_gradient()
          .symbol({.constant_output = true}));
  ops.add(
      OpBuilder<ArgParams>("argmin")
          .doc("Index of the first smallest value along an axis (a NaN counts as smallest), "
               "as float32 unless data is float64, int32 or int64.")
          .shapes(
              "any shape -> data without the axes `axis`, or with size 1 there (`keepdims=True`)")
          .infer(rule("argmin"))
          .zero_gradient()
          .symbol({.constant_output = true}));
  for (const char* name : {"_npi_argmax", "_npi_argmin"})
    ops.add(OpBuilder<ArgParams>(name)
                .doc("Index of the first largest (argmax) or smallest (argmin) value along an "
                     "axis, as int64.")
                .infer(rule(name, /*numpy=*/true))
                .zero_gradient()
                .symbol({.constant_output = true}));
  ops.add(OpBuilder<NoParams>("argmax_channel")
              .doc("Index of the first largest value along axis 1.")
              .shapes("(N, C, ...) -> (N, ...)")
              .infer(infer_channel)
              .zero_gradient()
              .symbol({.constant_output = true}));
});

}  // namespace mxlite
