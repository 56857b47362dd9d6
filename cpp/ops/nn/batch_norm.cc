#include "cpp/ops/nn/batch_norm.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kSync = "_contrib_SyncBatchNorm";
constexpr const char* kBatchNormInputs[] = {"data",        "gamma",      "beta",
                                            "moving_mean", "moving_var", "added"};

Specs infer_named(const char* op, const BatchNormParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_floating(op, "data", in[0]);
  const int axis = normalize_axis(op, p.axis, data.ndim());
  for (size_t i = 1; i < 5; ++i) {
    MX_CHECK_DTYPE(
        in[i].dtype == in[0].dtype || (is_half(in[0].dtype) && in[i].dtype == DType::kFloat32), op,
        ": ", kBatchNormInputs[i], " must have data's dtype ", in[0].dtype,
        is_half(in[0].dtype) ? " or dtype float32" : "", ", got ", in[i].dtype);
    MX_CHECK_DTYPE(in[i].dtype == in[1].dtype, op, ": ", kBatchNormInputs[i],
                   " must have gamma's dtype ", in[1].dtype, ", got ", in[i].dtype);
    check_param_shape(op, kBatchNormInputs[i], in[i], Shape{data[axis]}, data);
  }
  const TensorSpec stats{Shape{data[axis]}, in[1].dtype};
  return Specs{in[0], stats, stats};
}

Specs infer_batch_norm_specs(const BatchNormParams& p, std::span<const TensorSpec> in) {
  return infer_named("BatchNorm", p, in);
}

Specs infer_sync(const SyncBatchNormParams& p, std::span<const TensorSpec> in) {
  check_min_ndim(kSync, in[0].shape, 2);
  Specs out = infer_named(kSync, p, in);
  out.push_back(out[2]);
  return out;
}

void complete_batch_norm(const BatchNormParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  const int axis = normalize_axis("BatchNorm", p.axis, in[0].shape.ndim());
  for (size_t i = 1; i < 5; ++i) complete_shape(in[i], Shape{in[0].shape[axis]});
}

// P is the operator's parameter type. `inv_std` is the index of the output with the inverse
// standard deviation.
template <class P>
std::vector<ValueRef> composite_backward(GradBuilder& g, ValueRef output_grad, int inv_std) {
  const BatchNormParams& p = g.params<P>();
  const ChannelBlocks b = channel_blocks(g.input_spec(0).shape, p.axis);
  const composite::Normalization view{Shape{b.outer, b.channels, b.inner}, Shape{1, b.channels, 1},
                                      Shape{0, 2}, p.eps, p.fix_gamma};
  std::vector<ValueRef> grads =
      g.training() && !p.use_global_stats
          ? composite::normalize(g, output_grad, view)
          : composite::normalize_with(g, output_grad, view, g.output(1), g.output(inv_std));
  grads.resize(5);
  return grads;
}

template <class P>
ParamsRef gradient_params(GradBuilder& g) {
  auto params = std::make_shared<BatchNormGradParams>();
  static_cast<BatchNormParams&>(*params) = g.params<P>();
  params->batch_stats = g.training() && !params->use_global_stats;
  return params;
}

template <class P>
std::vector<ValueRef> fused_backward(GradBuilder& g, ValueRef output_grad, int inv_std) {
  const ValueRef inputs[] = {output_grad, g.input(0), g.input(1), g.output(1), g.output(inv_std)};
  std::vector<ValueRef> grads = g.emit_all("_batch_norm_backward", inputs, gradient_params<P>(g));
  grads.resize(5);
  return grads;
}

template <class P, int kInvStd>
std::vector<ValueRef> batch_norm_gradient(GradBuilder& g) {
  return fused_backward<P>(g, g.output_grad(0), kInvStd);
}

template <class P, int kInvStd>
std::vector<ValueRef> batch_norm_composite_gradient(GradBuilder& g) {
  return composite_backward<P>(g, g.output_grad(0), kInvStd);
}

ValueRef relu_gradient(GradBuilder& g) {
  return g.emit("_activation_backward", {g.output_grad(0), g.output(0)},
                {{"act_type", std::string("relu")}});
}

std::vector<ValueRef> gradient_with_relu(GradBuilder& g) {
  return fused_backward<BatchNormParams>(g, relu_gradient(g), 2);
}

std::vector<ValueRef> composite_with_relu(GradBuilder& g) {
  return composite_backward<BatchNormParams>(g, relu_gradient(g), 2);
}

std::vector<ValueRef> gradient_relu(GradBuilder& g) {
  const ValueRef inputs[] = {g.output_grad(0), g.input(0),  g.input(1),
                             g.input(2),       g.output(1), g.output(2)};
  std::vector<ValueRef> grads =
      g.emit_all("_batch_norm_relu_backward", inputs, gradient_params<BatchNormParams>(g));
  grads.resize(5);
  return grads;
}

std::vector<ValueRef> composite_add_relu(GradBuilder& g) {
  const ValueRef passed = relu_gradient(g);
  std::vector<ValueRef> grads = composite_backward<BatchNormParams>(g, passed, 2);
  grads.push_back(passed);
  return grads;
}

// Output kPassed contains for each element whether relu was active (its input was positive).
template <int kPassed>
std::vector<ValueRef> gradient_add_relu(GradBuilder& g) {
  const ValueRef inputs[] = {g.output_grad(0), g.output(kPassed), g.input(0),
                             g.input(1),       g.output(1),       g.output(2)};
  std::vector<ValueRef> grads = g.emit_all(
      kPassed == 0 ? "_batch_norm_add_relu_backward" : "_batch_norm_add_relu_bits_backward", inputs,
      gradient_params<BatchNormParams>(g));
  const ValueRef added = grads[3];
  grads.resize(5);
  grads[3] = {};
  grads.push_back(added);
  return grads;
}

Specs infer_add(const BatchNormParams& p, std::span<const TensorSpec> in) {
  constexpr const char* kOp = "_batch_norm_add_relu";
  MX_CHECK_SHAPE(may_equal(in[5].shape, in[0].shape), kOp, ": added must have data's shape ",
                 in[0].shape, ", got ", in[5].shape);
  MX_CHECK_DTYPE(in[5].dtype == in[0].dtype, kOp, ": added must have data's dtype ", in[0].dtype,
                 ", got ", in[5].dtype);
  return infer_named(kOp, p, in);
}

Specs infer_bits(const BatchNormParams& p, std::span<const TensorSpec> in) {
  Specs out = infer_add(p, in);
  const int64_t bytes = divide_dim(add_to_dim(count_elements(in[0].shape), 7), 8);
  out.push_back({Shape{bytes}, DType::kUInt8});
  return out;
}

Specs infer_add_backward(const BatchNormGradParams&, std::span<const TensorSpec> in) {
  return Specs{in[2], in[3], in[3], in[2]};
}

// Statistics, gamma and beta of half-precision data are float32.
void norm_types(const BatchNormParams&, KnownTypes in, KnownTypes out) {
  KnownType known;
  for (const KnownType& type : in)
    if (!known) known = type;
  if (!known && !out.empty()) known = out[0];
  if (!known) return;
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i]) in[i] = i > 0 && is_half(*known) ? DType::kFloat32 : *known;
}

// Names of outputs and initializers of states in symbols.
const std::vector<std::string> kOutputs = {"output", "mean", "var"};
const std::map<std::string, std::string> kStates = {{"moving_mean", R"(["zero", {}])"},
                                                    {"moving_var", R"(["one", {}])"}};

OpBuilder<BatchNormParams> batch_norm(const char* name, const char* doc, GradFn grad,
                                      GradFn composite) {
  return OpBuilder<BatchNormParams>(name)
      .doc(doc)
      .inputs({kBatchNormInputs, kBatchNormInputs + 5})
      .outputs(3)
      .visible_outputs([](const BatchNormParams& p) { return p.output_mean_var ? 3 : 1; })
      .infer(infer_batch_norm_specs)
      .complete(complete_batch_norm)
      .gradient(grad)
      .composite_gradient(composite)
      .mutates({3, 4}, /*only_in_training=*/true)
      .amp({.float32_inputs = {1, 2, 3, 4}})
      .training_dependent()
      .inplace(0, 0)
      .refine(refine_like_first);
}

}  // namespace

static const Registration batch_norm_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(batch_norm("BatchNorm",
                     "Normalizes each channel to mean 0 and variance 1 and computes gamma * x + "
                     "beta. Training uses mean and variance of the batch and updates moving_mean "
                     "and moving_var; inference uses moving_mean and moving_var.",
                     batch_norm_gradient<BatchNormParams, 2>,
                     batch_norm_composite_gradient<BatchNormParams, 2>)
              .shapes("data: (N, C, ...), the others (C,) -> shape of data")
              .alias({"BatchNorm_v1"})
              .drawn("normalization")
              .symbol({.output_names = kOutputs, .input_init = kStates})
              .types(norm_types));
  ops.add(batch_norm("_contrib_BatchNormWithReLU", "BatchNorm followed by relu.",
                     gradient_with_relu, composite_with_relu)
              .shapes("data: (N, C, ...), the others (C,) -> shape of data")
              .symbol({.output_names = kOutputs}));
  ops.add(
      OpBuilder<SyncBatchNormParams>(kSync)
          .doc("BatchNorm that accepts 1.x's parameters for several devices; training supports one "
               "device.")
          .inputs({kBatchNormInputs, kBatchNormInputs + 5})
          .outputs(4)
          .visible_outputs([](const SyncBatchNormParams& p) { return p.output_mean_var ? 3 : 1; })
          .infer(infer_sync)
          .complete([](const SyncBatchNormParams& p, std::span<TensorSpec> in) {
            complete_batch_norm(p, in);
          })
          .gradient(batch_norm_gradient<SyncBatchNormParams, 3>)
          .composite_gradient(batch_norm_composite_gradient<SyncBatchNormParams, 3>)
          .mutates({3, 4}, /*only_in_training=*/true)
          .training_dependent()
          .inplace(0, 0)
          .amp({.kind = AmpClass::kFloat32, .float32_inputs = {1, 2, 3, 4}})
          .symbol({.output_names = kOutputs, .input_init = kStates})
          .total_outputs(3)
          .types(norm_types)
          .refine(refine_like_first));
  // Fused operators, emitted only by graph/passes/fuse_norm.cc.
  ops.add(batch_norm("_batch_norm_relu", "BatchNorm followed by relu.", gradient_relu,
                     composite_with_relu));
  const auto add_relu = [](const char* name, const char* doc) {
    return OpBuilder<BatchNormParams>(name)
        .doc(doc)
        .inputs({kBatchNormInputs, kBatchNormInputs + 6})
        .visible_outputs(1)
        .complete(complete_batch_norm)
        .composite_gradient(composite_add_relu)
        .mutates({3, 4}, /*only_in_training=*/true)
        .training_dependent()
        .inplace(5, 0);
  };
  ops.add(add_relu("_batch_norm_add_relu", "relu(BatchNorm(data) + added).")
              .outputs(3)
              .infer(infer_add)
              .gradient(gradient_add_relu<0>));
  // Backward reads the last output (one bit per element) instead of the whole first output.
  ops.add(add_relu("_batch_norm_add_relu_bits",
                   "_batch_norm_add_relu that also returns one bit per element: whether relu's "
                   "input was above 0.")
              .outputs(4)
              .infer(infer_bits)
              .gradient(gradient_add_relu<3>));
  ops.add(
      OpBuilder<BatchNormParams>("_batch_norm_relu_again")
          .doc(
              "Computes the output of _batch_norm_relu again from the statistics that it returned.")
          .inputs({"data", "gamma", "beta", "mean", "inv_std"})
          .infer([](const BatchNormParams& p, std::span<const TensorSpec> in) {
            return Specs{infer_named("_batch_norm_relu_again", p, in)[0]};
          })
          .inplace(0, 0));
  ops.add(OpBuilder<BatchNormGradParams>("_batch_norm_relu_backward")
              .internal()
              .doc("Gradients of _batch_norm_relu for data, gamma and beta.")
              .inputs({"output_grad", "data", "gamma", "beta", "mean", "inv_std"})
              .outputs(3)
              .infer([](const BatchNormGradParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2], in[2]};
              })
              .inplace(0, 0));
  const auto add_relu_backward = [](const char* name, const char* passed) {
    return OpBuilder<BatchNormGradParams>(name)
        .internal()
        .doc("Gradients of BatchNorm, addition and relu for data, gamma, beta and added.")
        .inputs({"output_grad", passed, "data", "gamma", "mean", "inv_std"})
        .outputs(4)
        .infer(infer_add_backward)
        .inplace(0, 3);
  };
  ops.add(add_relu_backward("_batch_norm_add_relu_backward", "output"));
  // graph/passes/add_norm_gradients.cc adds the input other_grad to calls of this operator.
  ops.add(add_relu_backward("_batch_norm_add_relu_bits_backward", "bits")
              .inputs({"output_grad", "bits", "data", "gamma", "mean", "inv_std", "other_grad"})
              .input_count([](const BatchNormGradParams& p) { return p.two_grads ? 7 : 6; }));
  ops.add(OpBuilder<BatchNormGradParams>("_batch_norm_backward")
              .internal()
              .doc("Gradients of BatchNorm for data, gamma and beta.")
              .inputs({"output_grad", "data", "gamma", "mean", "inv_std"})
              .outputs(3)
              .infer([](const BatchNormGradParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2], in[2]};
              })
              .inplace(0, 0));
});

}  // namespace mxlite
