#include "cpp/ops/nn/layer_norm.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/composite_gradients.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void check_params(const char* op, std::span<const TensorSpec> in, const Shape& expected) {
  check_floating(op, "data", in[0]);
  check_same_dtype(op, "gamma", in[1], in[0].dtype);
  check_same_dtype(op, "beta", in[2], in[0].dtype);
  check_param_shape(op, "gamma", in[1], expected, in[0].shape);
  check_param_shape(op, "beta", in[2], expected, in[0].shape);
}

Specs infer_layer(const LayerNormParams& p, std::span<const TensorSpec> in) {
  const int axis = normalize_axis("LayerNorm", p.axis, in[0].shape.ndim());
  check_params("LayerNorm", in, Shape{in[0].shape[axis]});
  TensorSpec stats = in[0];
  stats.shape[axis] = 1;
  return Specs{in[0], stats, stats};
}

void complete_layer(const LayerNormParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  const int axis = normalize_axis("LayerNorm", p.axis, in[0].shape.ndim());
  for (int i : {1, 2}) complete_shape(in[i], Shape{in[0].shape[axis]});
}

// gamma and beta have one entry per group as in MXNet 1.x, or one per channel.
Specs infer_group(const GroupNormParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_min_ndim("GroupNorm", data, 3);
  MX_CHECK(may_be_multiple(data[1], p.num_groups),
           "GroupNorm: the number of channels must be a multiple of num_groups ", p.num_groups,
           ", got ", data[1], " in data of shape ", data);
  const Shape groups{p.num_groups}, channels{data[1]};
  const auto have = [&](const Shape& shape) {
    return may_equal(in[1].shape, shape) && may_equal(in[2].shape, shape);
  };
  check_params("GroupNorm", in, have(channels) && !have(groups) ? channels : groups);
  const TensorSpec stats{Shape{data[0], p.num_groups}, in[0].dtype};
  return Specs{in[0], stats, stats};
}

void complete_group(const GroupNormParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  const Shape channels{in[0].shape.ndim() > 1 ? in[0].shape[1] : kUnknownDim};
  const bool per_channel =
      (in[1].shape.is_known() && in[1].shape == channels) || in[2].shape == channels;
  for (int i : {1, 2})
    complete_shape(in[i], per_channel && channels.is_known() ? channels : Shape{p.num_groups});
}

Specs infer_instance(const InstanceNormParams&, std::span<const TensorSpec> in) {
  check_min_ndim("InstanceNorm", in[0].shape, 3);
  check_params("InstanceNorm", in, Shape{in[0].shape[1]});
  return Specs{in[0]};
}

void complete_instance(const InstanceNormParams&, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  check_min_ndim("InstanceNorm", in[0].shape, 3);
  for (int i : {1, 2}) complete_shape(in[i], Shape{in[0].shape[1]});
}

// Returns the operator's view of its data, for the composite gradient.
composite::Normalization layer_view(GradBuilder& g) {
  const auto& p = g.params<LayerNormParams>();
  const Shape& data = g.input_spec(0).shape;
  const int axis = normalize_axis("LayerNorm", p.axis, data.ndim());
  Shape gamma = Shape::filled(data.ndim(), 1);
  gamma[axis] = data[axis];
  return {data, gamma, Shape{axis}, p.eps};
}

composite::Normalization group_view(GradBuilder& g) {
  const auto& p = g.params<GroupNormParams>();
  const Shape& data = g.input_spec(0).shape;
  const int64_t groups = p.num_groups, each = data[1] / groups;
  const bool per_channel = g.input_spec(1).shape == Shape{data[1]};
  return {Shape{data[0], groups, each, data.product(2, data.ndim())},
          Shape{1, groups, per_channel ? each : 1, 1}, Shape{2, 3}, p.eps};
}

composite::Normalization instance_view(GradBuilder& g) {
  const Shape& data = g.input_spec(0).shape;
  return {Shape{data[0], data[1], data.product(2, data.ndim())}, Shape{1, data[1], 1}, Shape{2},
          g.params<InstanceNormParams>().eps};
}

template <composite::Normalization (*view)(GradBuilder&)>
std::vector<ValueRef> layer_norm_composite_gradient(GradBuilder& g) {
  return composite::normalize(g, g.output_grad(0), view(g));
}

std::vector<ValueRef> fused_gradient(GradBuilder& g, const char* op) {
  const ValueRef inputs[] = {g.output_grad(0), g.input(0), g.input(1)};
  return g.emit_all(op, inputs, g.params_ref());
}

template <class P>
void add_backward(OpRegistry& ops, const char* name, const char* doc) {
  ops.add(OpBuilder<P>(name)
              .internal()
              .doc(doc)
              .inputs({"output_grad", "data", "gamma"})
              .outputs(3)
              .infer([](const P&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2], in[2]};
              })
              .amp(AmpClass::kFloat32));
}

}  // namespace

static const Registration layer_norm_registration(Stage::kSchemas, [](OpRegistry& ops) {
  const std::vector<std::string> inputs = {"data", "gamma", "beta"};
  ops.add(
      OpBuilder<LayerNormParams>("LayerNorm")
          .doc(
              "Normalizes along one axis to mean 0 and variance 1, then computes gamma * x + beta.")
          .shapes("data of any shape; parameters: (size of `axis`,) -> shape of data")
          .inputs(inputs)
          .outputs(3)
          .visible_outputs([](const LayerNormParams& p) { return p.output_mean_var ? 3 : 1; })
          .infer(infer_layer)
          .complete(complete_layer)
          .gradient([](GradBuilder& g) { return fused_gradient(g, "_layer_norm_backward"); })
          .composite_gradient(layer_norm_composite_gradient<layer_view>)
          .inplace(0, 0)
          .amp(AmpClass::kFloat32)
          .symbol({.output_names = {"output", "mean", "std"}})
          .total_outputs(3)
          .refine(refine_like_first));
  ops.add(OpBuilder<GroupNormParams>("GroupNorm")
              .doc("Normalizes each group of channels of each sample to mean 0 and variance 1, "
                   "then computes gamma * x + beta.")
              .shapes("data: (N, C, ...), gamma, beta: (num_groups,) or (C,) -> shape of data")
              .inputs(inputs)
              .outputs(3)
              .visible_outputs([](const GroupNormParams& p) { return p.output_mean_var ? 3 : 1; })
              .infer(infer_group)
              .complete(complete_group)
              .gradient([](GradBuilder& g) { return fused_gradient(g, "_group_norm_backward"); })
              .composite_gradient(layer_norm_composite_gradient<group_view>)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output", "mean", "std"}})
              .total_outputs(3)
              .refine(refine_like_first));
  ops.add(OpBuilder<InstanceNormParams>("InstanceNorm")
              .doc("Normalizes each channel of each sample to mean 0 and variance 1, then computes "
                   "gamma * x + beta.")
              .shapes("data: (N, C, ...), gamma, beta: (C,) -> shape of data")
              .inputs(inputs)
              .infer(infer_instance)
              .complete(complete_instance)
              .gradient([](GradBuilder& g) { return fused_gradient(g, "_instance_norm_backward"); })
              .composite_gradient(layer_norm_composite_gradient<instance_view>)
              .inplace(0, 0)
              .amp(AmpClass::kFloat32)
              .symbol({.output_names = {"output", "mean", "var"}})
              .total_outputs(3)
              .refine(refine_like_first));
  add_backward<LayerNormParams>(ops, "_layer_norm_backward", "Gradients of LayerNorm.");
  add_backward<GroupNormParams>(ops, "_group_norm_backward", "Gradients of GroupNorm.");
  add_backward<InstanceNormParams>(ops, "_instance_norm_backward", "Gradients of InstanceNorm.");
});

}  // namespace mxlite
