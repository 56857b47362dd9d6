#include "cpp/ops/nn/deconvolution.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kDeconvolutionOp = "Deconvolution";

int64_t entry(const Shape& values, int i, int64_t missing) {
  return values.ndim() > 0 ? values[i] : missing;
}

// Returns the output's size before padding is removed, or -1 if the data's size is unknown.
int64_t full_extent(const DeconvolutionParams& p, const Shape& data, int i) {
  const int64_t size = data[i + (p.channels_last() ? 1 : 2)];
  if (!is_known(size)) return kUnknownDim;
  const int64_t steps = checked_mul(size - 1, entry(p.stride, i, 1));
  const int64_t reach = checked_mul(entry(p.dilate, i, 1), p.kernel[i] - 1);
  return checked_add(checked_add(steps, reach), 1);
}

bool has_target(const DeconvolutionParams& p) {
  for (int64_t t : p.target_shape)
    if (t != 0) return true;
  return false;
}

void check_deconvolution_data(const DeconvolutionParams& p, const Shape& data) {
  check_window(kDeconvolutionOp, p.kernel, p.stride, p.dilate, p.pad);
  check_spatial_data(kDeconvolutionOp, data, p.kernel, p.layout);
  const int64_t channels = data[channel_axis(data.ndim(), p.channels_last())];
  MX_CHECK_SHAPE(may_be_multiple(channels, p.num_group), kDeconvolutionOp,
                 ": the number of channels must be a multiple of num_group ", p.num_group, ", got ",
                 channels, " in data of shape ", data);
  MX_CHECK(p.num_filter % p.num_group == 0, kDeconvolutionOp,
           ": num_filter must be a multiple of num_group ", p.num_group, ", got ", p.num_filter);
  for (const auto& [name, values] : {std::pair{"adj", &p.adj}, {"target_shape", &p.target_shape}})
    MX_CHECK_SHAPE(values->ndim() == 0 || values->ndim() == p.kernel.ndim(), kDeconvolutionOp, ": ",
                   name, " must have ", p.kernel.ndim(), " entries for kernel ", p.kernel, ", got ",
                   *values);
  for (int i = 0; i < p.kernel.ndim(); ++i) {
    const int64_t full = full_extent(p, data, i);
    if (has_target(p)) {
      MX_CHECK_SHAPE(p.target_shape[i] >= 1 && may_be_at_most(p.target_shape[i], full),
                     kDeconvolutionOp, ": target_shape must be from 1 to ", full, " in dimension ",
                     i, " for data of shape ", data, ", got ", p.target_shape);
    } else {
      const int64_t adj = entry(p.adj, i, 0);
      MX_CHECK(adj < entry(p.stride, i, 1), kDeconvolutionOp,
               ": entries of adj must be below stride ", p.stride, ", got ", p.adj);
      MX_CHECK_SHAPE(!is_known(full) || checked_add(full, adj) > checked_mul(2, entry(p.pad, i, 0)),
                     kDeconvolutionOp, ": pad ", p.pad,
                     " must leave at least one element of the output for data of shape ", data);
    }
  }
}

Specs infer_deconvolution(const DeconvolutionParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_deconvolution_data(p, data);
  check_floating(kDeconvolutionOp, "data", in[0]);
  check_same_dtype(kDeconvolutionOp, "weight", in[1], in[0].dtype);
  check_param_shape(kDeconvolutionOp, "weight", in[1], deconvolution_weight_shape(p, data), data);
  if (!p.no_bias) {
    check_same_dtype(kDeconvolutionOp, "bias", in[2], in[0].dtype);
    check_param_shape(kDeconvolutionOp, "bias", in[2], Shape{p.num_filter}, data);
  }
  Shape size;
  for (int i = 0; i < p.kernel.ndim(); ++i)
    size.push_back(has_target(p) ? p.target_shape[i]
                                 : add_to_dim(full_extent(p, data, i),
                                              entry(p.adj, i, 0) - 2 * entry(p.pad, i, 0)));
  return Specs{TensorSpec{spatial_shape(data[0], p.num_filter, size.span(), p.channels_last()),
                          in[0].dtype}};
}

void complete_deconvolution(const DeconvolutionParams& p, std::span<TensorSpec> in) {
  if (in[0].shape.ndim() < 0) return;
  check_deconvolution_data(p, in[0].shape);
  complete_shape(in[1], deconvolution_weight_shape(p, in[0].shape));
  if (!p.no_bias) complete_shape(in[2], Shape{p.num_filter});
}

// The gradient of data is the convolution that this op transposes. The gradient of weight is that
// convolution's weight gradient with data and output exchanged.
std::vector<ValueRef> deconvolution_gradient(GradBuilder& g) {
  const auto& p = g.params<DeconvolutionParams>();
  std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
  const ParamsRef conv =
      std::make_shared<ConvolutionParams>(transposed_convolution(p, g.input_spec(0).shape));
  if (g.needs_grad(0)) grads[0] = g.emit("Convolution", {g.output_grad(0), g.input(1)}, conv);
  if (g.needs_grad(1))
    grads[1] = g.emit("_convolution_backward_weight", {g.input(0), g.output_grad(0)}, conv);
  if (!p.no_bias && g.needs_grad(2)) {
    const int ndim = g.output_spec(0).shape.ndim();
    grads[2] = sum_except(g, g.output_grad(0), channel_axis(ndim, p.channels_last()));
  }
  return grads;
}

}  // namespace

DeconvolutionPadding deconvolution_padding(const DeconvolutionParams& p, const Shape& data) {
  DeconvolutionPadding r;
  for (int i = 0; i < p.kernel.ndim(); ++i) {
    if (has_target(p)) {
      // Removes half of the excess, rounded up, on each side. If the excess is odd, adj adds a row.
      const int64_t excess = full_extent(p, data, i) - p.target_shape[i];
      r.pad.push_back((excess + 1) / 2);
      r.adj.push_back(excess % 2);
    } else {
      r.pad.push_back(entry(p.pad, i, 0));
      r.adj.push_back(entry(p.adj, i, 0));
    }
  }
  return r;
}

Shape deconvolution_weight_shape(const DeconvolutionParams& p, const Shape& data) {
  const int64_t channels = data[channel_axis(data.ndim(), p.channels_last())];
  return spatial_shape(channels, p.num_filter / p.num_group, p.kernel.span(), p.channels_last());
}

ConvolutionParams transposed_convolution(const DeconvolutionParams& p, const Shape& data) {
  ConvolutionParams conv;
  conv.kernel = p.kernel;
  conv.stride = p.stride;
  conv.dilate = p.dilate;
  conv.pad = deconvolution_padding(p, data).pad;
  conv.num_filter = data[channel_axis(data.ndim(), p.channels_last())];
  conv.num_group = p.num_group;
  conv.workspace = p.workspace;
  conv.cudnn_tune = p.cudnn_tune;
  conv.no_bias = true;
  conv.layout = p.layout;
  return conv;
}

static const Registration deconvolution_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<DeconvolutionParams>(kDeconvolutionOp)
              .doc("Transposed convolution over 1 to 3 spatial dimensions.")
              .shapes("data: (N, C, [D, H,] W), weight: (C, num_filter / num_group, *kernel), "
                      "bias: (num_filter,) -> (N, num_filter, [oD, oH,] oW)")
              .inputs({"data", "weight", "bias"})
              .input_count([](const DeconvolutionParams& p) { return p.no_bias ? 2 : 3; })
              .infer(infer_deconvolution)
              .complete(complete_deconvolution)
              .gradient(deconvolution_gradient)
              .amp(AmpClass::kLowPrecision)
              .drawn("layer", "{kernel}/{stride}, {num_filter}")
              .refine(refine_batch_size));
});

}  // namespace mxlite
