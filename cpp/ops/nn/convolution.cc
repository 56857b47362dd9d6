#include "cpp/ops/nn/convolution.h"

#include "cpp/base/checked_math.h"
#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

Shape convolution_weight_shape(const ConvolutionParams& p, const Shape& data) {
  const int64_t channels = data[channel_axis(data.ndim(), p.channels_last())];
  return spatial_shape(p.num_filter, divide_dim(channels, p.num_group), p.kernel.span(),
                       p.channels_last());
}

namespace {

constexpr const char* kConvolutionOp = "Convolution";

void check_convolution_data(const ConvolutionParams& p, const Shape& data) {
  check_window(kConvolutionOp, p.kernel, p.stride, p.dilate, p.pad);
  check_spatial_data(kConvolutionOp, data, p.kernel, p.layout);
  const int64_t channels = data[channel_axis(data.ndim(), p.channels_last())];
  MX_CHECK_SHAPE(may_be_multiple(channels, p.num_group), kConvolutionOp,
                 ": the number of channels must be a multiple of num_group ", p.num_group, ", got ",
                 channels, " in data of shape ", data);
  MX_CHECK(p.num_filter % p.num_group == 0, kConvolutionOp,
           ": num_filter must be a multiple of num_group ", p.num_group, ", got ", p.num_filter);
}

Shape output_shape(const ConvolutionParams& p, const Shape& data) {
  const SpatialWindow w = p.window();
  const int spatial = p.kernel.ndim();
  Shape size;
  for (int i = 0, at = 3 - spatial; i < spatial; ++i, ++at)
    size.push_back(window_count(kConvolutionOp, data[i + (p.channels_last() ? 1 : 2)], w.kernel[at],
                                w.stride[at], w.dilate[at], w.pad[at]));
  return spatial_shape(data[0], p.num_filter, size.span(), p.channels_last());
}

Specs infer_convolution_specs(const ConvolutionParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_convolution_data(p, data);
  MX_CHECK_DTYPE(in[0].dtype != DType::kBool, kConvolutionOp,
                 ": data must have a numeric dtype, got bool");
  check_same_dtype(kConvolutionOp, "weight", in[1], in[0].dtype);
  check_param_shape(kConvolutionOp, "weight", in[1], convolution_weight_shape(p, data), data);
  if (!p.no_bias) {
    check_same_dtype(kConvolutionOp, "bias", in[2], in[0].dtype);
    check_param_shape(kConvolutionOp, "bias", in[2], Shape{p.num_filter}, data);
  }
  return Specs{TensorSpec{output_shape(p, data), in[0].dtype}};
}

void complete_convolution(const ConvolutionParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  check_convolution_data(p, in[0].shape);
  complete_shape(in[1], convolution_weight_shape(p, in[0].shape));
  if (!p.no_bias) complete_shape(in[2], Shape{p.num_filter});
}

std::vector<ValueRef> convolution_gradient(GradBuilder& g) {
  const auto& p = g.params<ConvolutionParams>();
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  if (g.needs_grad(0)) {
    auto params = std::make_shared<ConvolutionDataGradParams>();
    static_cast<ConvolutionParams&>(*params) = p;
    params->data_shape = g.input_spec(0).shape;
    grads[0] = g.emit("_convolution_backward_data", {g.output_grad(0), g.input(1)},
                      ParamsRef(std::move(params)));
  }
  const bool bias = !p.no_bias && g.needs_grad(2);
  if (g.needs_grad(1)) {
    auto params = std::make_shared<ConvolutionParams>(p);
    params->no_bias = !bias;
    const ValueRef inputs[] = {g.output_grad(0), g.input(0)};
    const auto both = g.emit_all("_convolution_backward_weight", inputs, ParamsRef(params));
    grads[1] = both[0];
    if (bias) grads[2] = both[1];
  } else if (bias) {
    const int ndim = g.output_spec(0).shape.ndim();
    grads[2] = sum_except(g, g.output_grad(0), channel_axis(ndim, p.channels_last()));
  }
  return grads;
}

// Convolution is linear in data and in weight, so the gradients of its backward operators are again
// convolutions and these backward operators.
ParamsRef without_bias(const ConvolutionParams& p) {
  auto params = std::make_shared<ConvolutionParams>(p);
  params->no_bias = true;
  return params;
}

std::vector<ValueRef> gradient_of_data_grad(GradBuilder& g) {
  const ParamsRef conv = without_bias(g.params<ConvolutionDataGradParams>());
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) grads[0] = g.emit(kConvolutionOp, {g.output_grad(0), g.input(1)}, conv);
  if (g.needs_grad(1))
    grads[1] = g.emit("_convolution_backward_weight", {g.input(0), g.output_grad(0)}, conv);
  return grads;
}

std::vector<ValueRef> gradient_of_weight_grad(GradBuilder& g) {
  const auto& p = g.params<ConvolutionParams>();
  std::vector<ValueRef> grads(2);
  if (g.needs_grad(0)) {
    if (p.no_bias)
      grads[0] = g.emit(kConvolutionOp, {g.input(1), g.output_grad(0)}, without_bias(p));
    else
      grads[0] =
          g.emit(kConvolutionOp, {g.input(1), g.output_grad(0), g.output_grad(1)}, g.params_ref());
  }
  if (g.needs_grad(1)) {
    auto params = std::make_shared<ConvolutionDataGradParams>();
    static_cast<ConvolutionParams&>(*params) = p;
    params->data_shape = g.input_spec(1).shape;
    grads[1] = g.emit("_convolution_backward_data", {g.input(0), g.output_grad(0)},
                      ParamsRef(std::move(params)));
  }
  return grads;
}

// Infers the data's batch size from the output's, and spatial sizes where the stride is 1.
void refine_convolution(const ConvolutionParams& p, PartialShapes& shapes) {
  const Shape data = shapes.input(0), out = shapes.output(0);
  if (data.ndim() < 2 || out.ndim() != data.ndim()) return;
  Shape before = data;
  before[0] = out[0];
  if (p.kernel.ndim() == data.ndim() - 2) {
    const SpatialWindow window = p.window();
    const int first = p.channels_last() ? 1 : 2;
    for (int axis = first, at = 3 - p.kernel.ndim(); at < 3; ++axis, ++at) {
      if (out[axis] == -1 || window.stride[at] != 1) continue;
      const int64_t reach = checked_mul(window.dilate[at], window.kernel[at] - 1);
      const int64_t extent =
          checked_add(checked_add(out[axis], reach), -checked_mul(2, window.pad[at]));
      if (extent > 0) before[axis] = extent;
    }
  }
  shapes.refine_input(0, before);
}

}  // namespace

static const Registration convolution_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(
      OpBuilder<ConvolutionParams>(kConvolutionOp)
          .doc("Convolution over 1 to 3 spatial dimensions, with groups and dilation.")
          .shapes(
              "data: (N, C, [D, H,] W), weight: (num_filter, C / num_group, *kernel), bias: "
              "(num_filter,) -> (N, num_filter, [oD, oH,] oW); layouts with C last move it in all")
          .alias({"Convolution_v1"})
          .inputs({"data", "weight", "bias"})
          .input_count([](const ConvolutionParams& p) { return p.no_bias ? 2 : 3; })
          .infer(infer_convolution_specs)
          .complete(complete_convolution)
          .gradient(convolution_gradient)
          .amp(AmpClass::kLowPrecision)
          .drawn("layer", "{kernel}/{stride}, {num_filter}")
          .refine(refine_convolution));
  ops.add(OpBuilder<ConvolutionDataGradParams>("_convolution_backward_data")
              .internal()
              .doc("Gradient of Convolution for its data.")
              .inputs({"output_grad", "weight"})
              .infer([](const ConvolutionDataGradParams& p, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{p.data_shape, in[0].dtype}};
              })
              .gradient(gradient_of_data_grad)
              .amp(AmpClass::kLowPrecision));
  ops.add(OpBuilder<ConvolutionParams>("_convolution_backward_weight")
              .internal()
              .doc("Gradients of Convolution for weight and, unless no_bias, bias.")
              .inputs({"output_grad", "data"})
              .output_count([](const ConvolutionParams& p, int) { return p.no_bias ? 1 : 2; })
              .infer([](const ConvolutionParams& p, std::span<const TensorSpec> in) {
                const DType dtype = in[0].dtype;
                Specs out{TensorSpec{convolution_weight_shape(p, in[1].shape), dtype}};
                if (!p.no_bias) out.push_back({Shape{p.num_filter}, dtype});
                return out;
              })
              .gradient(gradient_of_weight_grad)
              .amp(AmpClass::kLowPrecision));
});

}  // namespace mxlite
