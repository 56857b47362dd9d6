#include "cpp/ops/nn/upsampling.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kUpsamplingOp = "UpSampling";

void check_upsampling_data(const Shape& data) {
  MX_CHECK_SHAPE(data.ndim() == 4, kUpsamplingOp,
                 ": data must have 4 dimensions (batch, channels, height, width), got shape ",
                 data);
}

Specs infer_bilinear(const UpSamplingParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK(in.size() == 2, kUpsamplingOp,
           ": sample_type 'bilinear' must have 2 inputs (data, weight), got ", in.size());
  MX_CHECK(p.num_filter == 0 || may_equal(p.num_filter, data[1]), kUpsamplingOp,
           ": num_filter must be 0 or the ", data[1], " channels of data of shape ", data, ", got ",
           p.num_filter);
  check_same_dtype(kUpsamplingOp, "weight", in[1], in[0].dtype);
  check_param_shape(kUpsamplingOp, "weight", in[1],
                    deconvolution_weight_shape(p.deconvolution(data[1]), data), data);
  return Specs{TensorSpec{
      Shape{data[0], data[1], multiply_dims(data[2], p.scale), multiply_dims(data[3], p.scale)},
      in[0].dtype}};
}

// Returns large / small, 0 if the quotient is not an integer, or -1 if one of them is unknown.
int64_t upsampling_factor(int64_t large, int64_t small) {
  return if_known([](int64_t size, int64_t part) { return size % part == 0 ? size / part : 0; },
                  large, small);
}

Specs infer_upsampling(const UpSamplingParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_upsampling_data(data);
  check_floating(kUpsamplingOp, "data", in[0]);
  if (p.sample_type == SampleType::kBilinear) return infer_bilinear(p, in);
  Shape out{data[0], 0, multiply_dims(data[2], p.scale), multiply_dims(data[3], p.scale)};
  const bool is_sum = p.multi_input_mode == MultiInputMode::kSum;
  if (is_sum) out[1] = data[1];
  for (const TensorSpec& spec : in) {
    const Shape& s = spec.shape;
    check_same_dtype(kUpsamplingOp, "input", spec, in[0].dtype);
    bool fits = s.ndim() == 4 && may_equal(s[0], out[0]) && s[2] != 0 && s[3] != 0;
    if (fits) {
      const int64_t rows = upsampling_factor(out[2], s[2]),
                    columns = upsampling_factor(out[3], s[3]);
      fits = rows != 0 && columns != 0 && may_equal(rows, columns);
    }
    MX_CHECK_SHAPE(fits, kUpsamplingOp, ": input of shape ", s,
                   " cannot be scaled to height and width ", Shape{out[2], out[3]});
    out[0] = merged(out[0], s[0]);
    if (is_sum) {
      MX_CHECK_SHAPE(may_equal(s[1], out[1]), kUpsamplingOp, ": inputs of shapes ", data, " and ",
                     s, " cannot be added: their channels differ");
      out[1] = merged(out[1], s[1]);
    } else {
      out[1] = add_dims(out[1], s[1]);
    }
  }
  return Specs{TensorSpec{out, in[0].dtype}};
}

std::vector<ValueRef> upsampling_gradient(GradBuilder& g) {
  const auto& p = g.params<UpSamplingParams>();
  const Shape& data = g.input_spec(0).shape;
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  if (p.sample_type == SampleType::kBilinear) {
    const ParamsRef conv =
        std::make_shared<ConvolutionParams>(transposed_convolution(p.deconvolution(data[1]), data));
    if (g.needs_grad(0)) grads[0] = g.emit("Convolution", {g.output_grad(0), g.input(1)}, conv);
    if (g.needs_grad(1))
      grads[1] = g.emit("_convolution_backward_weight", {g.input(0), g.output_grad(0)}, conv);
    return grads;
  }
  int64_t channel = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    const Shape& s = g.input_spec(i).shape;
    if (g.needs_grad(i))
      grads[static_cast<size_t>(i)] =
          g.emit("_upsampling_backward", {g.output_grad(0)},
                 {{"data_shape", s}, {"scale", data[2] * p.scale / s[2]}, {"channel", channel}});
    if (p.multi_input_mode == MultiInputMode::kConcat) channel += s[1];
  }
  return grads;
}

// Upsamples the gradient and pads it with zeros for the channels of the other inputs.
std::vector<ValueRef> upsampling_backward_gradient(GradBuilder& g) {
  const auto& p = g.params<UpSamplingGradParams>();
  const int64_t rest = g.input_spec(0).shape[1] - p.channel - p.data_shape[1];
  const ValueRef large = g.emit(kUpsamplingOp, {g.output_grad(0)},
                                {{"scale", p.scale}, {"sample_type", std::string("nearest")}});
  return {g.emit("Pad", {large},
                 {{"mode", std::string("constant")},
                  {"pad_width", Shape{0, 0, p.channel, rest, 0, 0, 0, 0}}})};
}

}  // namespace

static const Registration upsampling_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<UpSamplingParams>(kUpsamplingOp)
              .doc("Enlarges height and width of images by an integer factor.")
              .shapes("(N, C, H, W) each -> (N, C, scale * H, scale * W)")
              .variadic("data")
              .infer(infer_upsampling)
              .complete([](const UpSamplingParams& p, std::span<TensorSpec> in) {
                if (p.sample_type != SampleType::kBilinear || in.size() != 2) return;
                const Shape& data = in[0].shape;
                if (data.ndim() < 0) return;
                check_upsampling_data(data);
                complete_shape(in[1], deconvolution_weight_shape(p.deconvolution(data[1]), data));
              })
              .gradient(upsampling_gradient)
              .total_outputs(1)
              .symbol({.count_attribute = "num_args",
                       .input_init = {{"weight", R"(["bilinear", {}])"}}})
              .named_inputs([](const UpSamplingParams& p) {
                using Names = std::vector<std::string>;
                return p.sample_type == SampleType::kBilinear ? Names{"data", "weight"} : Names{};
              }));
  ops.add(OpBuilder<UpSamplingGradParams>("_upsampling_backward")
              .internal()
              .doc("Gradient of UpSampling by nearest neighbours for one input.")
              .inputs({"output_grad"})
              .infer([](const UpSamplingGradParams& p, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{p.data_shape, in[0].dtype}};
              })
              .gradient(upsampling_backward_gradient));
});

}  // namespace mxlite
