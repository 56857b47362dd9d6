#include <string_view>

#include "cpp/ops/cpu/onednn/convolution.h"

namespace mxlite::onednn {
namespace {

Dims entries(const Shape& values, int count, int64_t missing) {
  return values.ndim() > 0 ? dims(values) : Dims(static_cast<size_t>(count), missing);
}

// oneDNN's dilation is the number of skipped elements.
Dims dilation(const Shape& values, int count) {
  Dims d = entries(values, count, 1);
  for (auto& v : d) --v;
  return d;
}

Desc spatial_desc(const Shape& shape, DType dtype, bool channels_last) {
  return channels_last ? channels_last_desc(shape, dtype) : plain_desc(shape, dtype);
}

// Splits the first dimension of a weight into groups, which become a new first dimension.
Desc grouped(const Desc& weight, int64_t groups) {
  Dims size = weight.get_dims(), step = weight.get_strides();
  size[0] /= groups;
  size.insert(size.begin(), groups);
  step.insert(step.begin(), step[0] * size[1]);
  return strided_desc(size, weight.get_data_type(), step);
}

template <class PD>
PD unless_reference(PD pd) {
  if (!pd.get(true)) return pd;
  return std::string_view(pd.impl_info_str()).starts_with("ref") ? PD() : pd;
}

}  // namespace

ConvDescs describe(const ConvolutionParams& p, const Shape& data, const Shape& output, DType dtype,
                   bool bias) {
  const int spatial = p.kernel.ndim();
  const bool last = p.channels_last();
  ConvDescs d;
  d.data = spatial_desc(data, dtype, last);
  d.output = spatial_desc(output, dtype, last);
  d.weight = spatial_desc(convolution_weight_shape(p, data), dtype, last);
  if (p.num_group > 1) d.weight = grouped(d.weight, p.num_group);
  if (bias) d.bias = plain_desc(Shape{p.num_filter}, dtype);
  d.stride = entries(p.stride, spatial, 1);
  d.dilate = dilation(p.dilate, spatial);
  d.pad = d.pad_end = entries(p.pad, spatial, 0);
  return d;
}

ConvDescs describe(const DeconvolutionParams& p, const Shape& data, const Shape& output,
                   DType dtype, bool bias) {
  const int spatial = p.kernel.ndim();
  const bool last = p.channels_last();
  ConvDescs d;
  d.data = spatial_desc(data, dtype, last);
  d.output = spatial_desc(output, dtype, last);
  // The operator's weight is (C, num_filter / groups, ...); oneDNN's is ([groups,] num_filter, C,
  // ...).
  Desc weight = spatial_desc(deconvolution_weight_shape(p, data), dtype, last);
  if (p.num_group > 1) weight = grouped(weight, p.num_group);
  Dims size = weight.get_dims(), step = weight.get_strides();
  const size_t first = p.num_group > 1 ? 1 : 0;
  std::swap(size[first], size[first + 1]);
  std::swap(step[first], step[first + 1]);
  d.weight = strided_desc(size, weight.get_data_type(), step);
  if (bias) d.bias = plain_desc(Shape{p.num_filter}, dtype);
  d.stride = entries(p.stride, spatial, 1);
  d.dilate = dilation(p.dilate, spatial);
  const DeconvolutionPadding padding = deconvolution_padding(p, data);
  d.pad = dims(padding.pad);
  for (int i = 0; i < spatial; ++i) d.pad_end.push_back(padding.pad[i] - padding.adj[i]);
  return d;
}

double count_products(const Desc& over, const Desc& weight) {
  double count = 1;
  for (const auto n : over.get_dims()) count *= static_cast<double>(n);
  for (const auto n : weight.get_dims()) count *= static_cast<double>(n);
  return count / static_cast<double>(over.get_dims()[1]);
}

dnnl::convolution_forward::primitive_desc forward_desc(const ConvDescs& d, const Desc& data,
                                                       const Desc& weight, const Desc& output,
                                                       bool training,
                                                       const dnnl::primitive_attr& attr) {
  apply_thread_count(product_work(count_products(d.output, d.weight)));
  const auto prop =
      training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  using PD = dnnl::convolution_forward::primitive_desc;
  return unless_reference(
      d.bias.is_zero() ? PD(engine(), prop, algorithm, data, weight, output, d.stride, d.dilate,
                            d.pad, d.pad_end, attr, /*allow_empty=*/true)
                       : PD(engine(), prop, algorithm, data, weight, d.bias, output, d.stride,
                            d.dilate, d.pad, d.pad_end, attr, /*allow_empty=*/true));
}

dnnl::convolution_backward_data::primitive_desc backward_data_desc(const ConvDescs& d,
                                                                   const Desc& data,
                                                                   const Desc& weight,
                                                                   const Desc& output) {
  ConvDescs plain = d;
  plain.bias = Desc();
  const auto hint = forward_desc(plain, d.any_data(), d.any_weight(), d.any_output(),
                                 /*training=*/true, user_scratchpad());
  if (!hint.get(true)) return {};
  return unless_reference(dnnl::convolution_backward_data::primitive_desc(
      engine(), dnnl::algorithm::convolution_direct, data, weight, output, d.stride, d.dilate,
      d.pad, d.pad_end, hint, user_scratchpad(), /*allow_empty=*/true));
}

dnnl::convolution_backward_weights::primitive_desc backward_weight_desc(const ConvDescs& d,
                                                                        const Desc& data,
                                                                        const Desc& weight,
                                                                        const Desc& output) {
  const auto hint = forward_desc(d, d.any_data(), d.any_weight(), d.any_output(),
                                 /*training=*/true, user_scratchpad());
  if (!hint.get(true)) return {};
  using PD = dnnl::convolution_backward_weights::primitive_desc;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  return unless_reference(
      d.bias.is_zero() ? PD(engine(), algorithm, data, weight, output, d.stride, d.dilate, d.pad,
                            d.pad_end, hint, user_scratchpad(), /*allow_empty=*/true)
                       : PD(engine(), algorithm, data, weight, d.bias, output, d.stride, d.dilate,
                            d.pad, d.pad_end, hint, user_scratchpad(), /*allow_empty=*/true));
}

dnnl::deconvolution_forward::primitive_desc deconvolution_desc(const ConvDescs& d, const Desc& data,
                                                               const Desc& weight,
                                                               const Desc& output,
                                                               const dnnl::primitive_attr& attr) {
  apply_thread_count(product_work(count_products(d.data, d.weight)));
  using PD = dnnl::deconvolution_forward::primitive_desc;
  const auto prop = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::deconvolution_direct;
  return unless_reference(
      d.bias.is_zero() ? PD(engine(), prop, algorithm, data, weight, output, d.stride, d.dilate,
                            d.pad, d.pad_end, attr, /*allow_empty=*/true)
                       : PD(engine(), prop, algorithm, data, weight, d.bias, output, d.stride,
                            d.dilate, d.pad, d.pad_end, attr, /*allow_empty=*/true));
}

}  // namespace mxlite::onednn
