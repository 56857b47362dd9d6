#include "cpp/ops/cuda/nn/convolution_graph.h"

namespace mxlite::cuda {

namespace fe = cudnn_frontend;

namespace {

fe::DataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return fe::DataType_t::HALF;
    case DType::kBFloat16:
      return fe::DataType_t::BFLOAT16;
    case DType::kInt8:
      return fe::DataType_t::INT8;
    default:
      return fe::DataType_t::FLOAT;
  }
}

// Returns cuDNN's type of accumulators and of intermediate tensors.
fe::DataType_t compute_type(DType dtype) {
  return dtype == DType::kInt8 ? fe::DataType_t::INT32 : fe::DataType_t::FLOAT;
}
fe::DataType_t result_type(DType dtype) {
  return dtype == DType::kInt8 ? fe::DataType_t::INT32 : data_type(dtype);
}

template <class List>
std::vector<int64_t> first(const List& numbers, int count) {
  return {numbers.begin(), numbers.begin() + count};
}

using Tensor = ConvolutionResults::value_type;

fe::graph::Tensor_attributes attributes(const ConvolutionProblem& p,
                                        const ConvolutionProblem::Numbers& dims,
                                        ConvolutionTensor id) {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_dim(first(dims, p.ndim))
      .set_stride(first(p.strides_of(dims), p.ndim))
      .set_alignment(p.alignment);
}

// Sets padding, stride and dilation in the attributes of any of the three kinds of nodes.
template <class Attributes>
Attributes window(const ConvolutionProblem& p, Attributes attributes) {
  const int n = p.ndim - 2;
  attributes.set_padding(first(p.pad, n))
      .set_stride(first(p.stride, n))
      .set_dilation(first(p.dilate, n));
  return attributes;
}

Tensor pointwise(fe::graph::Graph& graph, DType dtype, fe::PointwiseMode_t mode, const Tensor& a,
                 const Tensor& b = nullptr) {
  const auto attributes =
      fe::graph::Pointwise_attributes().set_mode(mode).set_compute_data_type(compute_type(dtype));
  return b ? graph.pointwise(a, b, attributes) : graph.pointwise(a, attributes);
}

// Gives fused tensors the output's layout, because the frontend would make the first tensor
// channels-last.
void lay_out(const ConvolutionProblem& p, const ConvolutionProblem::Numbers& dims,
             const ConvolutionResults& results) {
  for (const Tensor& t : results)
    t->set_dim(first(dims, p.ndim)).set_stride(first(p.strides_of(dims), p.ndim));
}

// Adds the outputs for each channel's sum and sum of squares, in float32.
void add_sums(fe::graph::Graph& graph, const ConvolutionProblem& p, const Tensor& output) {
  const ConvolutionProblem::Numbers dims{1, p.output[1], 1, 1, 1};
  const auto sums = graph.genstats(output, fe::graph::Genstats_attributes());
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i]
        ->set_output(true)
        .set_uid(i == 0 ? kSum : kSquareSum)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(first(dims, p.ndim))
        .set_stride(first(p.strides_of(dims), p.ndim))
        .set_alignment(p.alignment);
}

ConvolutionResults forward_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor data = graph.tensor(attributes(p, p.data, kData));
  const Tensor weight = graph.tensor(attributes(p, p.weight, kWeight));
  ConvolutionResults results{
      graph.conv_fprop(data, weight, window(p, fe::graph::Conv_fprop_attributes()))};
  const auto add = [&](const ConvolutionProblem::Numbers& dims, ConvolutionTensor id) {
    const Tensor other = graph.tensor(attributes(p, dims, id));
    results.push_back(pointwise(graph, p.dtype, fe::PointwiseMode_t::ADD, results.back(), other));
  };
  if (p.bias) add({1, p.output[1], 1, 1, 1}, kBias);
  if (p.addend) add(p.output, kAddend);
  if (p.relu)
    results.push_back(pointwise(graph, p.dtype, fe::PointwiseMode_t::RELU_FWD, results.back()));
  // NVIDIA's example and test of int8 convolutions with int32 results also add this node.
  if (p.dtype == DType::kInt8)
    results.push_back(pointwise(graph, p.dtype, fe::PointwiseMode_t::IDENTITY, results.back()));
  lay_out(p, p.output, results);
  if (p.sums) add_sums(graph, p, results.back());
  return results;
}

ConvolutionResults backward_data_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor output = graph.tensor(attributes(p, p.output, kOutput));
  const Tensor weight = graph.tensor(attributes(p, p.weight, kWeight));
  ConvolutionResults results{
      graph.conv_dgrad(output, weight, window(p, fe::graph::Conv_dgrad_attributes()))};
  if (p.bias) {  // set only for a deconvolution
    const Tensor bias = graph.tensor(attributes(p, {1, p.data[1], 1, 1, 1}, kBias));
    results.push_back(pointwise(graph, p.dtype, fe::PointwiseMode_t::ADD, results.back(), bias));
  }
  lay_out(p, p.data, results);
  return results;
}

Tensor backward_weight_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  const Tensor output = graph.tensor(attributes(p, p.output, kOutput));
  const Tensor data = graph.tensor(attributes(p, p.data, kData));
  return graph.conv_wgrad(output, data, window(p, fe::graph::Conv_wgrad_attributes()));
}

}  // namespace

ConvolutionResults make_convolution_nodes(fe::graph::Graph& graph, const ConvolutionProblem& p) {
  graph.set_io_data_type(data_type(p.dtype))
      .set_intermediate_data_type(compute_type(p.dtype))
      .set_compute_data_type(compute_type(p.dtype));
  ConvolutionResults results;
  ConvolutionTensor id = kOutput;
  const ConvolutionProblem::Numbers* dims = &p.output;
  switch (p.direction) {
    case ConvolutionDirection::kForward:
      results = forward_nodes(graph, p);
      break;
    case ConvolutionDirection::kBackwardData:
      results = backward_data_nodes(graph, p);
      id = kData;
      dims = &p.data;
      break;
    case ConvolutionDirection::kBackwardWeight:
      results = {backward_weight_nodes(graph, p)};
      id = kWeight;
      dims = &p.weight;
      break;
  }
  results.back()
      ->set_output(true)
      .set_uid(id)
      .set_data_type(result_type(p.dtype))
      .set_dim(first(*dims, p.ndim))
      .set_stride(first(p.strides_of(*dims), p.ndim))
      .set_alignment(p.alignment);
  return results;
}

}  // namespace mxlite::cuda
