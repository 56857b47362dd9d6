// Lets cuDNN's frontend complete and check graphs of attention. The test needs no GPU.
#include <gtest/gtest.h>

#include "cpp/ops/cuda/nn/attention_graph.h"

namespace mxlite::cuda {
namespace {

using List = std::vector<int64_t>;

AttentionProblem problem(const AttentionParams& params, bool backward, float dropout = 0,
                         const Shape* mask = nullptr) {
  const Shape query{2, 4, 128, 64}, key{2, 2, 128, 64};
  return describe_attention(params, backward, dropout, DType::kBFloat16, query, key, key, mask);
}

cudnn_frontend::error_t validate(cudnn_frontend::graph::Graph& graph, const AttentionProblem& p) {
  graph.set_sm_version(90);
  make_attention_nodes(graph, p);
  return graph.validate();
}

TEST(CudaPluginAttentionGraphTest, TheFrontendAcceptsEveryOption) {
  const Shape mask{2, 1, 1, 128};
  for (const bool backward : {false, true})
    for (const AttentionProblem& p :
         {problem({}, backward), problem({.causal = true}, backward),
          problem({.causal = true, .use_length = true}, backward, 0.1f),
          problem({.use_mask = true, .use_length = true}, backward, 0, &mask),
          problem({.use_mask = true}, backward, 0.1f, &mask)}) {
      cudnn_frontend::graph::Graph graph;
      auto status = validate(graph, p);
      EXPECT_TRUE(status.is_good()) << p.text() << ": " << status.get_message();
    }
}

TEST(CudaPluginAttentionGraphTest, CausalWithFewerQueriesEndsAtTheLastKey) {
  for (const bool backward : {false, true}) {
    cudnn_frontend::graph::Graph graph;
    const AttentionProblem p =
        describe_attention({.causal = true}, backward, 0, DType::kFloat16, Shape{2, 4, 64, 64},
                           Shape{2, 4, 128, 64}, Shape{2, 4, 128, 64}, nullptr);
    auto status = validate(graph, p);
    EXPECT_TRUE(status.is_good()) << status.get_message();
  }
}

TEST(CudaPluginAttentionGraphTest, TensorsHaveTheShapesAndStepsOfTheProblem) {
  AttentionProblem p = problem({}, true);
  p.query = {4 * 128 * 64, 64, 4 * 64};  // (batch, length, heads, size) in memory
  cudnn_frontend::graph::Graph graph;
  ASSERT_TRUE(validate(graph, p).is_good());
  const auto expect = [&](AttentionTensor id, const List& dims, const List& strides) {
    cudnn_frontend::graph::Tensor_attributes t;
    ASSERT_TRUE(graph.query_tensor_attributes_of_uid(id, t).is_good()) << id;
    EXPECT_EQ(t.get_dim(), dims) << id;
    EXPECT_EQ(t.get_stride(), strides) << id;
  };
  expect(kAttentionQuery, {2, 4, 128, 64}, {32768, 64, 256, 1});
  expect(kAttentionKey, {2, 2, 128, 64}, {16384, 8192, 64, 1});
  expect(kAttentionLogSum, {2, 4, 128, 1}, {512, 128, 1, 1});
  expect(kAttentionQueryGrad, {2, 4, 128, 64}, {32768, 8192, 64, 1});
  expect(kAttentionKeyGrad, {2, 2, 128, 64}, {16384, 8192, 64, 1});
}

TEST(CudaPluginAttentionGraphTest, RepeatedAxesOfAMaskHaveSize1) {
  const Shape mask{2, 1, 1, 128};
  const AttentionProblem p = problem({.use_mask = true}, false, 0, &mask);
  cudnn_frontend::graph::Graph graph;
  ASSERT_TRUE(validate(graph, p).is_good());
  cudnn_frontend::graph::Tensor_attributes t;
  ASSERT_TRUE(graph.query_tensor_attributes_of_uid(kAttentionMask, t).is_good());
  EXPECT_EQ(t.get_dim(), (List{2, 1, 1, 128}));
  EXPECT_EQ(t.get_stride(), (List{128, 128, 128, 1}));
}

TEST(CudaPluginAttentionGraphTest, TheFrontendRefusesWhatTheChoiceRefuses) {
  AttentionProblem p = problem({}, true);
  p.d = 60;
  p.query = p.key = AttentionProblem::contiguous(4, 128, 60);
  ASSERT_NE(why_not_cudnn(p), nullptr);
  cudnn_frontend::graph::Graph graph;
  EXPECT_FALSE(validate(graph, p).is_good());
}

}  // namespace
}  // namespace mxlite::cuda
