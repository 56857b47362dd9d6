// Tests each pass alone on a small graph, and what it must not change.
#include "tests/cpp/errors.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

const PassContext kInference{{}, false, false};
const PassContext kExact{{}, true, false};

Graph checked(Graph g, const char* pass) {
  verify(g, pass);
  return g;
}

TEST(RemoveDead, DropsUnusedNodesAndKeepsInputsAndParameters) {
  Maker m;
  const ValueId x = m.input({2, 3});
  m.input({5});
  m.parameter({4});
  m.op("relu", {x});
  const ValueId y = m.op("tanh", {x});
  const Graph g = checked(remove_dead(m.finish({y}), kInference), "remove-dead");
  EXPECT_EQ(count_ops(g, "relu"), 0);
  EXPECT_EQ(count_ops(g, "tanh"), 1);
  EXPECT_EQ(g.inputs.size(), 2u);
  EXPECT_EQ(g.parameters.size(), 1u);
}

TEST(RemoveDead, KeepsWhatWritesParameters) {
  TrainingMaker m;
  const ValueId x = m.input({2, 3, 4, 4});
  m.batch_norm(x);
  const ValueId y = m.op("relu", {x});
  EXPECT_EQ(count_ops(remove_dead(m.finish({y}), kInference), "BatchNorm"), 1);
  m.graph.training = false;  // nothing is written then
  EXPECT_EQ(count_ops(remove_dead(m.finish({y}), kInference), "BatchNorm"), 0);
}

TEST(RemoveIdentity, CopiesCastsReshapesAndDropout) {
  Maker m;
  const ValueId x = m.input({2, 3});
  ValueId v = m.op("identity", {x});
  v = m.op("BlockGrad", {v});
  v = m.op("Cast", {v}, {{"dtype", DType::kFloat32}});
  v = m.op("_reshape_to", {v}, {{"shape", Shape{2, 3}}});
  v = m.op("Dropout", {v}, {{"p", 0.5}});
  const ValueId y = m.op("relu", {v});
  const Graph g = checked(remove_identity(m.finish({y}), kInference), "remove-identity");
  EXPECT_EQ(g.nodes.size(), 2u) << g.text();
}

TEST(RemoveIdentity, KeepsRealWork) {
  Maker m;
  const ValueId x = m.input({2, 3});
  const ValueId cast = m.op("Cast", {x}, {{"dtype", DType::kFloat64}});
  const ValueId shaped = m.op("_reshape_to", {x}, {{"shape", Shape{3, 2}}});
  const ValueId always = m.op("Dropout", {x}, {{"p", 0.5}, {"mode", std::string("always")}});
  const Graph g = remove_identity(m.finish({cast, shaped, always}), kInference);
  EXPECT_EQ(g.nodes.size(), 4u) << g.text();
  TrainingMaker training;
  const ValueId z = training.op("Dropout", {training.input({4})}, {{"p", 0.5}});
  EXPECT_EQ(count_ops(remove_identity(training.finish({z}), kExact), "Dropout"), 1);
}

TEST(FoldConstants, RunsWhatDependsOnNothing) {
  Maker m;
  const ValueId x = m.input({2, 3});
  const ValueId ones = m.op("_ones", {}, {{"shape", Shape{2, 3}}});
  const ValueId two = m.op("_plus_scalar", {ones}, {{"scalar", 1.0}});
  const ValueId y = m.op("broadcast_mul", {x, two});
  Graph g = checked(fold_constants(m.finish({y}), kInference), "fold-constants");
  g = remove_dead(g, kInference);
  EXPECT_EQ(g.nodes.size(), 3u) << g.text();
  EXPECT_EQ(values_of(g.node(find_op(g, "broadcast_mul").inputs[1]).value),
            std::vector<double>(6, 2.0));
}

TEST(FoldConstants, LargeArraysAndRandomNumbersStayNodes) {
  Maker m;
  const ValueId zeros = m.op("_zeros", {}, {{"shape", Shape{1024, 1024}}});
  const ValueId dropped = m.op("Dropout", {m.op("_ones", {}, {{"shape", Shape{8}}})},
                               {{"mode", std::string("always")}});
  const Graph g = fold_constants(m.finish({zeros, dropped}), kInference);
  EXPECT_EQ(count_ops(g, "_zeros"), 1);
  EXPECT_EQ(count_ops(g, "Dropout"), 1);
}

TEST(MergeCommon, EqualOperatorsOnEqualValues) {
  Maker m;
  const ValueId x = m.input({2, 3});
  const ValueId a = m.op("clip", {x}, {{"a_min", 0.0}, {"a_max", 1.0}});
  const ValueId b = m.op("clip", {x}, {{"a_min", 0.0}, {"a_max", 1.0}});
  const ValueId c = m.op("clip", {x}, {{"a_min", 0.0}, {"a_max", 2.0}});
  const ValueId y = m.op("add_n", {m.op("tanh", {a}), m.op("tanh", {b}), c});
  Graph g = checked(merge_common(m.finish({y}), kInference), "merge-common");
  EXPECT_EQ(count_ops(g, "clip"), 2) << g.text();
  EXPECT_EQ(count_ops(g, "tanh"), 1);
}

TEST(MergeCommon, NeitherRandomNorStateful) {
  TrainingMaker m;
  const ValueId x = m.input({2, 3, 2, 2});
  const ValueId d1 = m.op("Dropout", {x}, {{"p", 0.5}}), d2 = m.op("Dropout", {x}, {{"p", 0.5}});
  const ValueId b1 = m.batch_norm(x);
  const std::vector<ValueId> same = m.graph.node(b1).inputs;
  const ValueId b2 = m.op("BatchNorm", same, {{"fix_gamma", false}, {"eps", 1e-3}});
  // These nodes read what BatchNorm writes. The values before and after it are different.
  const ValueId r1 = m.op("negative", {same[3]});
  const ValueId b3 = m.op("BatchNorm", same, {{"fix_gamma", false}, {"eps", 1e-3}});
  const ValueId r2 = m.op("negative", {same[3]});
  const Graph g = merge_common(m.finish({d1, d2, b1, b2, b3, r1, r2}), kExact);
  EXPECT_EQ(count_ops(g, "Dropout"), 2);
  EXPECT_EQ(count_ops(g, "BatchNorm"), 3);
  EXPECT_EQ(count_ops(g, "negative"), 2);
}

TEST(FoldBatchNorm, IntoLayersBefore) {
  for (bool bias : {false, true}) {
    for (bool fix_gamma : {false, true}) {
      Maker m;
      const ValueId x = m.input({2, 3, 6, 6});
      const ValueId y = m.batch_norm(m.conv(x, 8, 3, bias), fix_gamma);
      const Graph traced = m.finish({y});
      Graph g = checked(fold_batch_norm(traced, kInference), "fold-batch-norm");
      EXPECT_EQ(count_ops(g, "BatchNorm"), 0) << g.text();
      EXPECT_EQ(find_op(remove_dead(g, kInference), "Convolution").inputs.size(), 3u);
      expect_same_as_eager(traced, 1);
    }
  }
}

TEST(FoldBatchNorm, IntoDenseAndTransposedLayers) {
  Maker dense;
  const ValueId x = dense.input({4, 6});
  ValueId y = dense.op("FullyConnected", {x, dense.parameter({5, 6}), dense.parameter({5})},
                       {{"num_hidden", int64_t{5}}});
  Graph traced = dense.finish({dense.batch_norm(y)});
  EXPECT_EQ(count_ops(fold_batch_norm(traced, kInference), "BatchNorm"), 0);
  expect_same_as_eager(traced, 2);

  Maker transposed;
  const ValueId z = transposed.input({2, 4, 5, 5});
  y = transposed.op("Deconvolution", {z, transposed.parameter({4, 6, 3, 3})},
                    {{"kernel", Shape{3, 3}}, {"num_filter", int64_t{6}}, {"no_bias", true}});
  traced = transposed.finish({transposed.batch_norm(y)});
  EXPECT_EQ(count_ops(fold_batch_norm(traced, kInference), "BatchNorm"), 0);
  expect_same_as_eager(traced, 3);
}

TEST(FoldBatchNorm, HalfWeightsAreScaledInFloat) {
  Maker m;
  const ValueId x = m.input({1, 2, 4, 4}, DType::kBFloat16);
  const ValueId w = m.parameter({3, 2, 1, 1}, DType::kBFloat16);
  const ValueId conv =
      m.op("Convolution", {x, w},
           {{"kernel", Shape{1, 1}}, {"num_filter", int64_t{3}}, {"no_bias", true}});
  std::vector<ValueId> in{conv};
  for (int i = 0; i < 4; ++i) in.push_back(m.parameter({3}));  // float32 statistics
  const Graph traced = m.finish({m.op("BatchNorm", in, {{"fix_gamma", false}})});
  const Graph g = checked(fold_batch_norm(traced, kInference), "fold-batch-norm");
  EXPECT_EQ(count_ops(g, "BatchNorm"), 0);
  expect_same_as_eager(traced, 4, 3e-2);
}

TEST(FoldBatchNorm, NotWhereItWouldBeWrong) {
  {  // the layer's own result is used too
    Maker m;
    const ValueId c = m.conv(m.input({1, 2, 4, 4}), 3);
    const ValueId y = m.batch_norm(c);
    EXPECT_EQ(count_ops(fold_batch_norm(m.finish({y, c}), kInference), "BatchNorm"), 1);
  }
  {  // statistics are computed by the graph
    TrainingMaker m;
    const ValueId y = m.batch_norm(m.conv(m.input({1, 2, 4, 4}), 3));
    EXPECT_EQ(count_ops(fold_batch_norm(m.finish({y}), kInference), "BatchNorm"), 1);
  }
  {  // the weight is an input
    Maker m;
    const ValueId x = m.input({1, 2, 4, 4}), w = m.input({3, 2, 1, 1});
    const ValueId c =
        m.op("Convolution", {x, w},
             {{"kernel", Shape{1, 1}}, {"num_filter", int64_t{3}}, {"no_bias", true}});
    const ValueId y = m.batch_norm(c);
    EXPECT_EQ(count_ops(fold_batch_norm(m.finish({y}), kInference), "BatchNorm"), 1);
  }
  {  // another axis
    Maker m;
    const ValueId c = m.conv(m.input({1, 2, 3, 4}), 3);
    std::vector<ValueId> in{c};
    for (int i = 0; i < 4; ++i) in.push_back(m.parameter({4}));
    const ValueId y = m.op("BatchNorm", in, {{"axis", int64_t{3}}});
    EXPECT_EQ(count_ops(fold_batch_norm(m.finish({y}), kInference), "BatchNorm"), 1);
  }
}

ValueId relu(Maker& m, ValueId v) {
  return m.op("Activation", {v}, {{"act_type", std::string("relu")}});
}

TEST(FusePostOps, ResidualAdditionAndActivation) {
  Maker m;
  const ValueId x = m.input({2, 16, 8, 8});
  const ValueId a = relu(m, m.conv(x, 16, 3));
  const ValueId b = m.conv(a, 16, 3);
  const ValueId y = relu(m, m.op("broadcast_add", {b, x}));
  const Graph traced = m.finish({y});
  const Graph g = checked(fuse_post_ops(traced, kInference), "fuse-post-ops");
  EXPECT_EQ(count_ops(g, "Activation"), 0) << g.text();
  EXPECT_EQ(count_ops(g, "broadcast_add"), 0) << g.text();
  EXPECT_EQ(count_ops(g, "Convolution"), 2);
  expect_same_as_eager(traced, 5);
}

TEST(FusePostOps, TheLaterOfTwoLayersTakesTheAddition) {
  Maker m;
  const ValueId x = m.input({2, 16, 8, 8});
  const ValueId a = m.conv(x, 16, 1), b = m.conv(x, 16, 3);
  const Graph traced = m.finish({relu(m, m.op("elemwise_add", {a, b}))});
  const Graph g = checked(fuse_post_ops(traced, kInference), "fuse-post-ops");
  EXPECT_EQ(count_ops(g, "elemwise_add"), 0);
  EXPECT_EQ(g.node(g.outputs[0]).params(), traced.node(b).params());
  EXPECT_EQ(g.node(g.outputs[0]).post_ops.size(), 2u);
  expect_same_as_eager(traced, 6);
}

TEST(FusePostOps, NotWhenTheValueItselfIsNeeded) {
  Maker m;
  const ValueId x = m.input({2, 16, 8, 8});
  const ValueId a = m.conv(x, 16, 3);
  const ValueId twice = m.op("broadcast_add", {a, a});
  const Graph shared = m.finish({relu(m, a), a, twice});
  const Graph g = fuse_post_ops(shared, kInference);
  EXPECT_EQ(count_ops(g, "Activation"), 1);
  EXPECT_EQ(count_ops(g, "broadcast_add"), 1);
  expect_same_as_eager(shared, 7);

  Maker broadcast;
  const ValueId d = broadcast.conv(broadcast.input({2, 16, 8, 8}), 16, 3);
  const ValueId row = broadcast.input({1, 16, 1, 1});
  const Graph traced = broadcast.finish({broadcast.op("broadcast_add", {d, row})});
  EXPECT_EQ(count_ops(fuse_post_ops(traced, kInference), "broadcast_add"), 1);
  expect_same_as_eager(traced, 8);
}

TEST(FusePostOps, ExactHalvesAreNotFused) {
  Maker m;
  const ValueId x = m.input({2, 16, 8, 8}, DType::kBFloat16);
  const ValueId w = m.parameter({16, 16, 1, 1}, DType::kBFloat16);
  const ValueId c = m.op("Convolution", {x, w},
                         {{"kernel", Shape{1, 1}}, {"num_filter", int64_t{16}}, {"no_bias", true}});
  const Graph traced = m.finish({m.op("broadcast_add", {c, x})});
  EXPECT_EQ(count_ops(fuse_post_ops(traced, kExact), "broadcast_add"), 1);
}

TEST(Verify, NamesTheRuleAndThePass) {
  Maker m;
  const ValueId y = m.op("relu", {m.input({2, 3})});
  Graph g = m.finish({y});
  g.nodes[1].outputs[0].shape = Shape{3, 2};
  const std::string text = error_of([&] { verify(g, "my-pass"); });
  EXPECT_HAS(text, "my-pass");
  EXPECT_HAS(text, "infers");
  g = m.finish({y});
  std::swap(g.nodes[0], g.nodes[1]);
  EXPECT_THROW(verify(g, "swap"), Error);
}

TEST(Verify, FindsABrokenProgram) {
  Maker m;
  ValueId v = m.input({64, 64});
  for (int i = 0; i < 4; ++i) v = m.op("transpose", {v}, {{"axes", Shape{1, 0}}});
  const Graph graph = m.finish({v});
  const Program good = lower(graph, kInference);
  verify(good, "plan-memory", true);

  Program overlap = good;  // Both values of the second step are alive: they must lie apart.
  const Instruction& step = overlap.main[1];
  overlap.buffers[static_cast<size_t>(overlap.root_id(step.inputs[0].buffer))].offset =
      overlap.root(step.outputs[0].buffer).offset;
  EXPECT_THROW(verify(overlap, "test", true), Error);

  Program outside = good;
  outside.arena_bytes -= 1;
  EXPECT_THROW(verify(outside, "test", true), Error);

  Program unwritten = good;
  unwritten.main.erase(unwritten.main.begin() + 1);
  EXPECT_THROW(verify(unwritten, "test", true), Error);

  Program small = good;
  small.buffers[static_cast<size_t>(small.root_id(step.outputs[0].buffer))].bytes /= 2;
  EXPECT_THROW(verify(small, "test", true), Error);

  Program circle = good;
  circle.buffers[static_cast<size_t>(step.outputs[0].buffer)].merged_into = step.outputs[0].buffer;
  EXPECT_THROW(verify(circle, "test", true), Error);
}

TEST(Pipelines, EveryPassHasAPurpose) {
  for (const Pipeline pipeline :
       {Pipeline::kInference, Pipeline::kRecorded, Pipeline::kDifferentiated, Pipeline::kTraining})
    for (const Pass& pass : passes_of(pipeline)) {
      EXPECT_NE(pass.run, nullptr);
      EXPECT_HAS(pass.purpose, " ")
          << pass.name << ": a purpose is a verb and its object, '" << pass.purpose << "' given";
    }
  EXPECT_STREQ(program_passes().back().name, "plan-memory");
}

}  // namespace
}  // namespace mxlite::graph::test
