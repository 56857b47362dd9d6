// shape_array and size_array.
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_shape_array(const NoParams&, std::span<const TensorSpec> in) {
  return {{{in[0].shape.ndim()}, DType::kInt64}};
}

Specs infer_size_array(const NoParams&, std::span<const TensorSpec>) {
  return {{{1}, DType::kInt64}};
}

// Type inference in symbols.
void integer_type(const NoParams&, KnownTypes, KnownTypes out) {
  if (!out[0]) out[0] = DType::kInt64;
}

}  // namespace

static const Registration shape_array_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<NoParams>("shape_array")
          .doc("Returns the shape of an array as an int64 array.")
          .shapes("any shape -> (dimensions,)")
          .infer(infer_shape_array)
          .refine([](const NoParams&, PartialShapes& shapes) {
            shapes.refine_output(0, Shape{-1});  // one dimension, of unknown length
          })
          .zero_gradient()
          .symbol(
              {.constant_output = true, .untied_inputs = {0}, .output_type = OutputType::kOfInputs})
          .types(integer_type));
  ops.add(
      OpBuilder<NoParams>("size_array")
          .doc("Returns the number of elements of an array as an int64 array.")
          .shapes("any shape -> (1,)")
          .infer(infer_size_array)
          .refine([](const NoParams&, PartialShapes& shapes) { shapes.refine_output(0, Shape{1}); })
          .zero_gradient()
          .symbol(
              {.constant_output = true, .untied_inputs = {0}, .output_type = OutputType::kOfInputs})
          .types(integer_type));
});

}  // namespace mxlite
