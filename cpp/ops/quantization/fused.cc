#include "cpp/ops/quantization/fused.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {
namespace {

void check_sum(const char* op, const FusedParams& p, const TensorSpec& sum, const Shape& output) {
  MX_CHECK_SHAPE(may_equal(sum.shape, output), op, ": sum must have the output's shape ", output,
                 ", got ", sum.shape);
  if (!p.is_quantized()) {
    MX_CHECK_DTYPE(sum.dtype == DType::kFloat32, op,
                   ": sum must be of dtype float32 for an output of float32, got ", sum.dtype);
    return;
  }
  check_quantized(op, "sum", sum);
  MX_CHECK(p.sum_range && *p.sum_range >= 0, op,
           ": sum_range must be the largest absolute value of a quantized sum, got ",
           p.sum_range ? str(*p.sum_range) : "None");
}

template <class P>
Specs infer_fused(const char* op, const char* of, const P& p, std::span<const TensorSpec> in) {
  const FusedInputs at = fused_inputs(p);
  check_quantized(op, "data", in[0]);
  MX_CHECK_DTYPE(in[1].dtype == DType::kInt8, op, ": weight must be of dtype int8, got ",
                 in[1].dtype);
  check_calibration(op, p.min_calib_range, p.max_calib_range);
  MX_CHECK(!p.act_max || p.act_type == FusedActivation::kRelu, op,
           ": act_max must be None for act_type gelu, got ", *p.act_max);
  check_ranges(op, in, at.low(), 2);
  SmallVector<TensorSpec, 3> floats;
  for (const TensorSpec& s : in.first(at.arrays())) floats.push_back({s.shape, DType::kFloat32});
  for (const size_t i : {at.bias, at.scale})
    if (i)
      MX_CHECK_DTYPE(in[i].dtype == DType::kFloat32, op, ": ",
                     i == at.bias ? "bias" : "weight_scale", " must be of dtype float32, got ",
                     in[i].dtype);
  const Shape output = ops().get(of).infer(&p, floats)[0].shape;
  check_param_shape(op, "weight_scale", in[at.scale], Shape{in[1].shape[0]}, in[0].shape);
  if (at.sum) check_sum(op, p, in[at.sum], output);
  const TensorSpec spec{output, p.output_dtype()};
  if (p.is_quantized()) return with_range(spec);
  return {spec};
}

template <class P>
void add_fused(OpRegistry& ops, const char* name, const char* of, const char* doc) {
  ops.add(OpBuilder<P>(name)
              .inputs({"data", "weight", "bias", "weight_scale", "min_data", "max_data", "sum"})
              .input_count([](const P& p) { return static_cast<int>(fused_inputs(p).count()); })
              .output_count([](const P& p, int) { return p.is_quantized() ? 3 : 1; })
              .doc(doc)
              .infer([name, of](const P& p, std::span<const TensorSpec> in) {
                if constexpr (std::is_same_v<P, FusedConvolutionParams>)
                  MX_CHECK_KIND(
                      !p.channels_last(), ErrorKind::kNotSupported, name,
                      ": the layout must have the channels before the spatial axes, such as NCHW");
                return infer_fused(name, of, p, in);
              })
              .complete([of](const P& p, std::span<TensorSpec> in) {
                const FusedInputs at = fused_inputs(p);
                mxlite::ops().get(of).complete(&p, in.first(at.arrays()));
                complete_shape(in[at.scale], Shape{in[1].shape[0]});
                complete_shape(in[at.low()], Shape{1});
                complete_shape(in[at.high()], Shape{1});
              })
              .symbol({.output_names = {"output", "min_output", "max_output"}})
              .refine(refine_batch_size)
              .types([](const P& p, KnownTypes in, KnownTypes out) {
                const FusedInputs at = fused_inputs(p);
                for (size_t i = 0; i < in.size(); ++i)
                  if (!in[i])
                    in[i] = i < 2 || (at.sum && i == at.sum && p.is_quantized()) ? DType::kInt8
                                                                                 : DType::kFloat32;
                for (size_t i = 0; i < out.size(); ++i)
                  if (!out[i]) out[i] = i == 0 ? p.output_dtype() : DType::kFloat32;
              }));
}

}  // namespace
}  // namespace quantization

static const Registration fused_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace quantization;  // NOLINT: this folder's own names
  add_fused<FusedConvolutionParams>(
      ops, "_sg_mkldnn_conv", "Convolution",
      "Convolution of quantized data with int8 weights that have a scale for each filter, then an "
      "optional addition and activation. Returns float32, or int8 or uint8 if a calibrated range "
      "is given.");
  add_fused<FusedFullyConnectedParams>(
      ops, "_sg_mkldnn_fully_connected", "FullyConnected",
      "Linear layer on quantized data with int8 weights that have a scale for each output, then an "
      "optional addition and activation. Returns float32, or int8 or uint8 if a calibrated range "
      "is given.");
});

}  // namespace mxlite
