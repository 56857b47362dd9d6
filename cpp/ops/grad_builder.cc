#include "cpp/ops/grad_builder.h"

#include "cpp/ops/op_schema.h"

namespace mxlite {

ValueRef GradBuilder::emit(std::string_view op, std::initializer_list<ValueRef> inputs,
                           Attrs attrs) {
  return emit_all(op, inputs, attrs)[0];
}

ValueRef GradBuilder::emit(std::string_view op, std::initializer_list<ValueRef> inputs,
                           ParamsRef params) {
  return emit_all(ops().get(op), std::span(inputs.begin(), inputs.size()), std::move(params))[0];
}

std::vector<ValueRef> GradBuilder::emit_all(std::string_view op, std::span<const ValueRef> inputs,
                                            ParamsRef params) {
  return emit_all(ops().get(op), inputs, std::move(params));
}

std::vector<ValueRef> GradBuilder::emit_all(std::string_view op,
                                            std::initializer_list<ValueRef> inputs, Attrs attrs) {
  const OpSchema& schema = ops().get(op);
  return emit_all(schema, std::span(inputs.begin(), inputs.size()),
                  schema.make_params_by_name(std::span(attrs.begin(), attrs.size())));
}

ValueRef GradBuilder::add(ValueRef a, ValueRef b) {
  if (!a) return b;
  if (!b) return a;
  return emit("broadcast_add", {a, b});
}
ValueRef GradBuilder::sub(ValueRef a, ValueRef b) { return emit("broadcast_sub", {a, b}); }
ValueRef GradBuilder::mul(ValueRef a, ValueRef b) { return emit("broadcast_mul", {a, b}); }
ValueRef GradBuilder::div(ValueRef a, ValueRef b) { return emit("broadcast_div", {a, b}); }
ValueRef GradBuilder::neg(ValueRef a) { return emit("negative", {a}); }
ValueRef GradBuilder::add_scalar(ValueRef a, double s) {
  return emit("_plus_scalar", {a}, {{"scalar", s}});
}
ValueRef GradBuilder::mul_scalar(ValueRef a, double s) {
  return emit("_mul_scalar", {a}, {{"scalar", s}});
}

ValueRef GradBuilder::reshape(ValueRef a, const Shape& shape) {
  if (spec(a).shape == shape) return a;
  // Unlike Reshape, _reshape_to gives 0 and -1 no special meaning.
  return emit("_reshape_to", {a}, {{"shape", shape}});
}

ValueRef GradBuilder::cast(ValueRef a, DType dtype) {
  return spec(a).dtype == dtype ? a : emit("Cast", {a}, {{"dtype", dtype}});
}

ValueRef GradBuilder::sum_to(ValueRef a, const Shape& target) {
  const Shape& from = spec(a).shape;
  if (from == target) return a;
  Shape axes;
  const int lead = from.ndim() - target.ndim();
  for (int i = 0; i < from.ndim(); ++i)
    if (i < lead || (target[i - lead] == 1 && from[i] != 1)) axes.push_back(i);
  ValueRef summed = a;
  if (axes.ndim() > 0) summed = emit("sum", {a}, {{"axis", axes}, {"keepdims", true}});
  return reshape(summed, target);
}

ValueRef GradBuilder::zeros(const TensorSpec& s) {
  return emit("_zeros", {}, {{"shape", s.shape}, {"dtype", s.dtype}});
}

}  // namespace mxlite
