#include "cpp/ops/nn/softmax.h"

#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs check(const char* op, const SoftmaxParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_floating(op, "data", in[0]);
  const int axis = normalize_axis(op, p.axis, data.ndim());
  MX_CHECK(!p.temperature || *p.temperature != 0, op, ": temperature must not be 0");
  if (p.dtype)
    MX_CHECK_DTYPE(is_floating(*p.dtype), op,
                   ": dtype must be float16, bfloat16, float32 or float64, got ", *p.dtype);
  if (p.use_length) {
    Shape expected = data;
    expected.erase(axis);
    check_param_shape(op, "length", in[1], expected, data);
    MX_CHECK_DTYPE(in[1].dtype == DType::kInt32 || in[1].dtype == DType::kInt64, op,
                   ": length must have dtype int32 or int64, got ", in[1].dtype);
  }
  return Specs{TensorSpec{data, p.dtype.value_or(in[0].dtype)}};
}

// Infers the shape of `length`: one entry for each vector along the axis.
void refine_softmax(const SoftmaxParams& p, PartialShapes& shapes) {
  refine_like_first(&p, shapes);
  Shape length = shapes.input(0);
  if (shapes.num_inputs() < 2 || length.ndim() <= 0) return;
  length.erase(normalize_axis("softmax", p.axis, length.ndim()));
  shapes.refine_input(1, length);
}

template <int Which>
struct Names;
template <>
struct Names<0> {
  static constexpr const char *op = "softmax", *backward = "_softmax_backward";
};
template <>
struct Names<1> {
  static constexpr const char *op = "log_softmax", *backward = "_log_softmax_backward";
};
template <>
struct Names<2> {
  static constexpr const char *op = "softmin", *backward = "_softmin_backward";
};

// Returns nothing for log_softmax with length: outputs beyond the length are 0, with gradient 0.
template <int Which>
std::vector<ValueRef> softmax_composite_gradient(GradBuilder& g) {
  const auto& p = g.params<SoftmaxParams>();
  if (Which == 1 && p.use_length) return {};
  const double scale = (Which == 2 ? -1 : 1) / p.temperature.value_or(1.0);
  const int axis = normalize_axis(Names<Which>::op, p.axis, g.input_spec(0).shape.ndim());
  const auto rule = Which == 1 ? composite::log_softmax : composite::softmax;
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = g.cast(rule(g, g.output_grad(0), g.output(0), axis, scale), g.input_spec(0).dtype);
  return grads;
}

template <int Which>
std::vector<ValueRef> softmax_gradient(GradBuilder& g) {
  auto params = std::make_shared<SoftmaxGradParams>();
  static_cast<SoftmaxParams&>(*params) = g.params<SoftmaxParams>();
  params->data_dtype = g.input_spec(0).dtype;
  std::vector<ValueRef> inputs = {g.output_grad(0), g.output(0)};
  if (params->use_length) inputs.push_back(g.input(1));
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  grads[0] = g.emit_all(Names<Which>::backward, inputs, ParamsRef(std::move(params)))[0];
  return grads;
}

template <int Which>
void add_softmax(OpRegistry& ops, const char* doc) {
  constexpr const char* kOp = Names<Which>::op;
  ops.add(OpBuilder<SoftmaxParams>(kOp)
              .doc(doc)
              .shapes("data of any shape; length: data's shape without `axis` -> shape of data")
              .inputs({"data", "length"})
              .input_count([](const SoftmaxParams& p) { return p.use_length ? 2 : 1; })
              .infer([](const SoftmaxParams& p, std::span<const TensorSpec> in) {
                return check(kOp, p, in);
              })
              .gradient(softmax_gradient<Which>)
              .composite_gradient(softmax_composite_gradient<Which>)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .symbol({.names_single_input = true,
                       .untied_inputs = {1},
                       .output_type = OutputType::kDtypeOrInputs})
              .refine(refine_softmax)
              .types([](const SoftmaxParams&, KnownTypes in, KnownTypes) {
                if (in.size() > 1 && !in[1]) in[1] = DType::kInt32;
              }));
  ops.add(OpBuilder<SoftmaxGradParams>(Names<Which>::backward)
              .internal()
              .doc(str("Gradient of ", kOp, "."))
              .inputs({"output_grad", "output", "length"})
              .input_count([](const SoftmaxGradParams& p) { return p.use_length ? 3 : 2; })
              .infer([](const SoftmaxGradParams& p, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{in[1].shape, p.data_dtype}};
              })
              .inplace(0, 0)
              .amp(AmpClass::kFloat32));
}

std::vector<ValueRef> activation_gradient(GradBuilder& g) {
  return {g.emit("_softmax_activation_backward", {g.output_grad(0), g.output(0)}, g.params_ref())};
}

std::vector<ValueRef> composite_activation_gradient(GradBuilder& g) {
  const Shape& shape = g.input_spec(0).shape;
  const ChannelBlocks b = g.params<SoftmaxActivationParams>().blocks(shape);
  const Shape view{b.outer, b.channels, b.inner};
  const ValueRef grad = composite::softmax(g, g.reshape(g.output_grad(0), view),
                                           g.reshape(g.output(0), view), 1, 1.0);
  return {g.reshape(grad, shape)};
}

}  // namespace

static const Registration softmax_registration(Stage::kSchemas, [](OpRegistry& ops) {
  add_softmax<0>(ops, "exp(data / temperature), divided by its sum along one axis.");
  add_softmax<1>(ops, "Logarithm of softmax, computed without overflow.");
  add_softmax<2>(ops, "softmax of the negated data.");
  ops.add(OpBuilder<SoftmaxActivationParams>("SoftmaxActivation")
              .doc("softmax along all axes of a sample or along its channels.")
              .infer([](const SoftmaxActivationParams& p, std::span<const TensorSpec> in) {
                check_floating("SoftmaxActivation", "data", in[0]);
                check_min_ndim("SoftmaxActivation", in[0].shape,
                               p.mode == SoftmaxMode::kChannel ? 3 : 2);
                return Specs{in[0]};
              })
              .gradient(activation_gradient)
              .composite_gradient(composite_activation_gradient)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .refine(refine_all_alike));
  ops.add(OpBuilder<SoftmaxActivationParams>("_softmax_activation_backward")
              .internal()
              .doc("Gradient of SoftmaxActivation.")
              .inputs({"output_grad", "output"})
              .infer(same_as_input<1, SoftmaxActivationParams>)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
