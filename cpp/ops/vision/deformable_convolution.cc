#include "cpp/ops/vision/deformable_convolution.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

struct Shapes {
  Shape offset, mask, weight, bias, output;
};

template <class P>
constexpr const char* kDeformableConvolutionOp =
    P::kModulated ? "_contrib_ModulatedDeformableConvolution" : "_contrib_DeformableConvolution";
template <class P>
constexpr const char* kDeformableConvolutionBackward =
    P::kModulated ? "_modulated_deformable_convolution_backward"
                  : "_deformable_convolution_backward";

// Checks data and parameters and returns the shapes of the other arrays.
template <class P>
Shapes shapes_for(const P& p, const Shape& data) {
  const char* op = kDeformableConvolutionOp<P>;
  check_window(op, p.kernel, p.stride, p.dilate, p.pad);
  MX_CHECK_SHAPE(p.kernel.ndim() == 2, op, ": kernel must be (height, width), got ", p.kernel);
  check_spatial_data(op, data, p.kernel, p.layout);
  MX_CHECK(!is_channels_last(p.layout), op, ": layout must be NCHW, got NHWC");
  const int64_t channels = data[1], groups = p.num_group, moved = p.num_deformable_group;
  MX_CHECK_SHAPE(may_be_multiple(channels, groups) && may_be_multiple(channels, moved), op,
                 ": the number of channels must be a multiple of num_group ", groups,
                 " and of num_deformable_group ", moved, ", got ", channels, " in data of shape ",
                 data);
  MX_CHECK(p.num_filter % groups == 0, op, ": num_filter must be a multiple of num_group ", groups,
           ", got ", p.num_filter);
  const SpatialWindow w = p.window();
  int64_t size[2];
  for (int i = 0; i < 2; ++i)
    size[i] = window_count(op, data[i + 2], w.kernel[i + 1], w.stride[i + 1], w.dilate[i + 1],
                           w.pad[i + 1]);
  const int64_t elements = checked_mul(moved, w.kernel_size());
  return {Shape{data[0], checked_mul(2, elements), size[0], size[1]},
          Shape{data[0], elements, size[0], size[1]},
          Shape{p.num_filter, divide_dim(channels, groups), p.kernel[0], p.kernel[1]},
          Shape{p.num_filter}, Shape{data[0], p.num_filter, size[0], size[1]}};
}

template <class P>
Specs infer_deformable_convolution(const P& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_floating(kDeformableConvolutionOp<P>, "data", in[0]);
  const Shapes s = shapes_for(p, data);
  size_t next = 1;
  const auto check = [&](const char* name, const Shape& expected) {
    check_same_dtype(kDeformableConvolutionOp<P>, name, in[next], in[0].dtype);
    check_param_shape(kDeformableConvolutionOp<P>, name, in[next++], expected, data);
  };
  check("offset", s.offset);
  if (P::kModulated) check("mask", s.mask);
  check("weight", s.weight);
  if (!p.no_bias) check("bias", s.bias);
  return Specs{TensorSpec{s.output, in[0].dtype}};
}

template <class P>
void complete_deformable_convolution(const P& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  const Shapes s = shapes_for(p, in[0].shape);
  size_t next = 1;
  complete_shape(in[next++], s.offset);
  if (P::kModulated) complete_shape(in[next++], s.mask);
  complete_shape(in[next++], s.weight);
  if (!p.no_bias) complete_shape(in[next], s.bias);
}

template <class P>
std::vector<ValueRef> deformable_convolution_gradient(GradBuilder& g) {
  std::vector<ValueRef> inputs{g.output_grad(0)};
  for (int i = 0; i <= kWeightInput<P>; ++i) inputs.push_back(g.input(i));
  std::vector<ValueRef> grads =
      g.emit_all(kDeformableConvolutionBackward<P>, inputs, g.params_ref());
  if (g.num_inputs() > kWeightInput<P> + 1) grads.push_back(sum_except(g, g.output_grad(0), 1));
  return grads;
}

template <class P>
void register_one(OpRegistry& ops, const char* doc, std::vector<std::string> inputs,
                  const std::string& mask = {}) {
  std::vector<std::string> backward_inputs = inputs;
  backward_inputs.insert(backward_inputs.begin(), "output_grad");
  backward_inputs.pop_back();  // bias
  ops.add(OpBuilder<P>(kDeformableConvolutionOp<P>)
              .doc(doc)
              .shapes(str("data: (N, C, H, W), offset: (N, 2 * groups * kH * kW, oH, oW), ", mask,
                          "weight: (num_filter, C / num_group, kH, kW), bias: (num_filter,) -> (N, "
                          "num_filter, oH, oW)"))
              .inputs(std::move(inputs))
              .input_count([](const P& p) { return kWeightInput<P> + (p.no_bias ? 1 : 2); })
              .infer(infer_deformable_convolution<P>)
              .complete(complete_deformable_convolution<P>)
              .refine(refine_batch_size)
              .gradient(deformable_convolution_gradient<P>)
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<P>(kDeformableConvolutionBackward<P>)
              .internal()
              .doc("Gradients of the deformable convolution for all inputs but bias.")
              .inputs(std::move(backward_inputs))
              .outputs(kWeightInput<P> + 1)
              .infer([](const P&, std::span<const TensorSpec> in) {
                Specs out;
                for (size_t i = 1; i < in.size(); ++i) out.push_back(in[i]);
                return out;
              })
              .amp(AmpClass::kFloat32));
}

}  // namespace

static const Registration deformable_convolution_registration(Stage::kSchemas, [](OpRegistry& ops) {
  register_one<DeformableConvolutionParams>(ops,
                                            "2-D convolution whose window elements are each moved "
                                            "by the (y, x) in offset, with bilinear interpolation.",
                                            {"data", "offset", "weight", "bias"});
  register_one<ModulatedDeformableConvolutionParams>(
      ops,
      "2-D convolution whose window elements are each moved by the (y, x) in offset, with bilinear "
      "interpolation, and multiplied by mask.",
      {"data", "offset", "mask", "weight", "bias"}, "mask: (N, groups * kH * kW, oH, oW), ");
});

}  // namespace mxlite
