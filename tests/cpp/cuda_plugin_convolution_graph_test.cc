// Lets cuDNN's frontend complete and check graphs of convolutions. The test needs no GPU.
#include <gtest/gtest.h>

#include "cpp/ops/cuda/nn/convolution_graph.h"
#include "cpp/ops/quantization/int8_product.h"

namespace mxlite::cuda {
namespace {

using List = std::vector<int64_t>;

ConvolutionProblem problem(bool channels_last) {
  ConvolutionProblem p;
  p.channels_last = channels_last;
  p.data = {2, 4, 9, 7};
  p.weight = {8, 4, 3, 3};
  p.output = {2, 8, 9, 7};
  p.stride = p.pad = p.dilate = {1, 1};
  return p;
}

TEST(CudaPluginConvolutionGraphTest, WhatIsFusedLiesAsTheOutputDoes) {
  for (const bool last : {false, true}) {
    ConvolutionProblem p = problem(last);
    p.bias = p.addend = p.relu = true;
    cudnn_frontend::graph::Graph graph;
    const ConvolutionResults results = make_convolution_nodes(graph, p);
    const auto status = graph.validate();
    ASSERT_TRUE(status.is_good()) << status.err_msg;
    ASSERT_EQ(results.size(), 4u);
    for (const auto& t : results) {
      EXPECT_EQ(t->get_dim(), (List{2, 8, 9, 7}));
      EXPECT_EQ(t->get_stride(), last ? (List{504, 1, 56, 8}) : (List{504, 63, 7, 1}));
      EXPECT_EQ(t->get_is_virtual(), t != results.back());
    }
  }
}

TEST(CudaPluginConvolutionGraphTest, AlignmentReachesEveryOperand) {
  for (const int64_t bytes : {16, 4}) {
    ConvolutionProblem p = problem(false);
    p.bias = p.addend = true;
    p.alignment = bytes;
    cudnn_frontend::graph::Graph graph;
    make_convolution_nodes(graph, p);
    ASSERT_TRUE(graph.validate().is_good());
    for (const ConvolutionTensor id : {kData, kWeight, kOutput, kBias, kAddend}) {
      cudnn_frontend::graph::Tensor_attributes t;
      ASSERT_TRUE(graph.query_tensor_attributes_of_uid(id, t).is_good()) << id;
      EXPECT_EQ(t.get_alignment(), bytes) << id;
    }
  }
}

TEST(CudaPluginConvolutionGraphTest, Int8BecomesInt32InChannelsLastMemory) {
  ConvolutionParams params;
  params.kernel = {3, 3};
  params.pad = {1, 1};
  params.num_filter = 10;
  const auto plan =
      quantization::plan_int8_convolution(params, {2, 3, 9, 7}, {2, 10, 9, 7}, DType::kInt8);
  cudnn_frontend::graph::Graph graph;
  const ConvolutionResults results = make_convolution_nodes(graph, plan.problem);
  const auto status = graph.validate();
  ASSERT_TRUE(status.is_good()) << status.err_msg;
  for (const ConvolutionTensor id : {kData, kWeight}) {
    cudnn_frontend::graph::Tensor_attributes t;
    ASSERT_TRUE(graph.query_tensor_attributes_of_uid(id, t).is_good()) << id;
    EXPECT_EQ(t.get_data_type(), cudnn_frontend::DataType_t::INT8);
    EXPECT_EQ(t.get_dim()[1], 16);
    EXPECT_EQ(t.get_stride()[1], 1);
  }
  ASSERT_EQ(results.size(), 2u);
  for (const auto& t : results) {
    EXPECT_EQ(t->get_data_type(), cudnn_frontend::DataType_t::INT32);
    EXPECT_EQ(t->get_dim(), (List{2, 12, 9, 7}));
    EXPECT_EQ(t->get_stride(), (List{756, 1, 84, 12}));
    EXPECT_EQ(t->get_is_virtual(), t != results.back());
  }
}

// cuDNN's GenStats requires that the output is stored and that the sums of its channels are
// float32.
TEST(CudaPluginConvolutionGraphTest, SumsOfChannelsAreStoredBesideTheOutput) {
  ConvolutionProblem p = problem(true);
  p.dtype = DType::kFloat16;
  p.sums = true;
  cudnn_frontend::graph::Graph graph;
  const ConvolutionResults results = make_convolution_nodes(graph, p);
  const auto status = graph.validate();
  ASSERT_TRUE(status.is_good()) << status.err_msg;
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0]->get_is_virtual());
  EXPECT_EQ(results[0]->get_data_type(), cudnn_frontend::DataType_t::HALF);
  EXPECT_EQ(results[0]->get_stride(), (List{504, 1, 56, 8}));
  for (const ConvolutionTensor id : {kSum, kSquareSum}) {
    cudnn_frontend::graph::Tensor_attributes t;
    ASSERT_TRUE(graph.query_tensor_attributes_of_uid(id, t).is_good()) << id;
    EXPECT_EQ(t.get_dim(), (List{1, 8, 1, 1})) << id;
    EXPECT_EQ(t.get_stride(), (List{8, 1, 8, 8})) << id;
    EXPECT_EQ(t.get_data_type(), cudnn_frontend::DataType_t::FLOAT) << id;
    EXPECT_EQ(t.get_alignment(), ConvolutionProblem::kFullAlignment) << id;
    EXPECT_FALSE(t.get_is_virtual()) << id;
  }
}

TEST(CudaPluginConvolutionGraphTest, GradientsHaveTheShapesOfWhatTheyBelongTo) {
  ConvolutionProblem p = problem(false);
  p.direction = ConvolutionDirection::kBackwardData;
  cudnn_frontend::graph::Graph data, weight;
  const auto data_gradient = make_convolution_nodes(data, p).back();
  ASSERT_TRUE(data.validate().is_good());
  EXPECT_EQ(data_gradient->get_dim(), (List{2, 4, 9, 7}));
  p.direction = ConvolutionDirection::kBackwardWeight;
  const auto weight_gradient = make_convolution_nodes(weight, p).back();
  ASSERT_TRUE(weight.validate().is_good());
  EXPECT_EQ(weight_gradient->get_dim(), (List{8, 4, 3, 3}));
  EXPECT_EQ(weight_gradient->get_stride(), (List{36, 9, 3, 1}));
}

}  // namespace
}  // namespace mxlite::cuda
