#include "cpp/ops/nn/layer_rules.h"

#include "cpp/ops/dimensions.h"

namespace mxlite {

void complete_shape(TensorSpec& spec, const Shape& expected) {
  if (spec.shape.ndim() < 0) {
    spec.shape = expected;
  } else if (spec.shape.ndim() == expected.ndim()) {
    for (int i = 0; i < expected.ndim(); ++i)
      if (spec.shape[i] < 0) spec.shape[i] = expected[i];
  }
}

void check_floating(const char* op, const char* input, const TensorSpec& spec) {
  MX_CHECK_DTYPE(is_floating(spec.dtype), op, ": ", input,
                 " must have dtype float16, bfloat16, float32 or float64, got ", spec.dtype);
}

void check_same_dtype(const char* op, const char* input, const TensorSpec& spec, DType expected) {
  if (spec.dtype == expected) return;
  std::string remedy = str("convert ", input, " with astype('", expected, "')");
  const std::string_view name = input;
  if (is_floating(spec.dtype) && (name == "weight" || name == "bias")) {
    remedy = str("convert data with astype('", spec.dtype, "')");
    if (is_floating(expected)) remedy += str(" or the network with cast('", expected, "')");
  }
  fail(ErrorKind::kDType, op, ": ", input, " must have data's dtype ", expected, ", got ",
       spec.dtype, "; ", remedy);
}

void check_param_shape(const char* op, const char* input, const TensorSpec& spec,
                       const Shape& expected, const Shape& data) {
  MX_CHECK_SHAPE(may_equal(spec.shape, expected), op, ": ", input, " must have shape ", expected,
                 " for data of shape ", data, ", got ", spec.shape);
}

void check_min_ndim(const char* op, const Shape& data, int ndim) {
  MX_CHECK_SHAPE(data.ndim() >= ndim, op, ": data must have at least ", ndim, " dimensions, got ",
                 data.ndim(), " in shape ", data);
}

ValueRef sum_except(GradBuilder& g, ValueRef value, int axis) {
  return g.emit("sum", {value}, {{"axis", Shape{axis}}, {"exclude", true}});
}

}  // namespace mxlite
