// Tests the channels-last pass: which nodes it converts, where it transposes, and that values stay
// equal.
#include "cpp/graph/rewrite.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph {
namespace {

using namespace test;  // NOLINT

const PassContext kGpu{.device = {DeviceType::kCUDA, 0}};

std::string layout_of(const Node& n) {
  const int i = n.op()->param_index("layout");
  return attr_text(n.op()->params_values(n.params().get())[static_cast<size_t>(i)]);
}

void expect_same_values(const Graph& before, const Graph& after) {
  const Arrays arrays = random_arrays(before, 5);
  const auto want = run_eagerly(before, arrays), got = run_eagerly(after, arrays);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 2e-2);
}

Graph residual_block(Maker& m, DType dtype, ValueId x) {
  const auto conv = [&](ValueId data, int64_t filters, int64_t kernel) {
    const Shape& d = m.graph.spec(data).shape;
    return m.op("Convolution", {data, m.parameter({filters, d[1], kernel, kernel}, dtype)},
                {{"kernel", Shape{kernel, kernel}},
                 {"pad", Shape{kernel / 2, kernel / 2}},
                 {"num_filter", filters},
                 {"no_bias", true}});
  };
  ValueId y = m.batch_norm(conv(x, 6, 3));
  y = m.op("Activation", {y}, {{"act_type", std::string("relu")}});
  y = m.op("Pooling", {y}, {{"kernel", Shape{2, 2}}, {"stride", Shape{2, 2}}});
  const ValueId left = conv(y, 4, 3), right = conv(y, 4, 1);
  y = m.op("broadcast_add", {left, right});
  y = m.op("Concat", {y, left}, {{"dim", 1}});
  y = m.op("Pooling", {y}, {{"global_pool", true}, {"pool_type", std::string("avg")}});
  return m.finish({m.op("Flatten", {y}), left});
}

TEST(ChannelsLast, ABlockIsTransposedAtItsBordersOnly) {
  Maker m;
  const Graph before = residual_block(m, DType::kFloat16, m.input({2, 3, 8, 6}, DType::kFloat16));
  const Graph after = channels_last(before, kGpu);
  verify(after, "channels-last");
  EXPECT_EQ(count_ops(after, "Convolution"), 3);
  for (const Node& n : after.nodes)
    if (n.kind == NodeKind::kOp && (n.op()->name == "Convolution" || n.op()->name == "Pooling")) {
      EXPECT_EQ(layout_of(n), "NHWC");
    }
  // The image, two 3x3 weights and the output `left` are transposed. 1x1 weights and 1x1 images
  // need no transposition.
  EXPECT_EQ(count_ops(after, "transpose"), 4);
  EXPECT_EQ(count_ops(after, "_reshape_to"), 2);
  EXPECT_EQ(after.spec(after.outputs[1]), before.spec(before.outputs[1]));
  expect_same_values(before, after);
}

TEST(ChannelsLast, FloatsAndTheCpuKeepTheirLayout) {
  Maker floats, halves;
  const Graph f = residual_block(floats, DType::kFloat32, floats.input({2, 3, 8, 6}));
  EXPECT_EQ(channels_last(f, kGpu).text(), f.text());
  const Graph h =
      residual_block(halves, DType::kFloat16, halves.input({2, 3, 8, 6}, DType::kFloat16));
  EXPECT_EQ(channels_last(h, PassContext{}).text(), h.text());
}

TEST(ChannelsLast, RunningTwiceChangesNothingMore) {
  Maker m;
  const Graph once = channels_last(
      residual_block(m, DType::kBFloat16, m.input({2, 3, 8, 6}, DType::kBFloat16)), kGpu);
  EXPECT_EQ(channels_last(once, kGpu).text(), once.text());
}

TEST(ChannelsLast, BroadcastScalesOfChannelsFollow) {
  Maker m;
  const ValueId x = m.input({2, 3, 5, 4}, DType::kFloat16);
  const ValueId y = m.op("Convolution", {x, m.parameter({4, 3, 3, 3}, DType::kFloat16)},
                         {{"kernel", Shape{3, 3}}, {"num_filter", 4}, {"no_bias", true}});
  const ValueId scale = m.input({2, 4, 1, 1}, DType::kFloat16);
  const Graph before = m.finish({m.op("broadcast_mul", {y, scale})});
  expect_same_values(before, channels_last(before, kGpu));
}

// Returns a convolution of `channels` channels, with BatchNorm behind it.
ValueId first_layer(Maker& m, ValueId x, DType dtype, int64_t groups = 1, bool bias = false) {
  const int64_t channels = m.graph.spec(x).shape[1];
  std::vector<ValueId> in{x, m.parameter({6 * groups, channels / groups, 3, 3}, dtype)};
  if (bias) in.push_back(m.parameter({6 * groups}, dtype));
  return m.batch_norm(m.op("Convolution", in,
                           {{"kernel", Shape{3, 3}},
                            {"pad", Shape{1, 1}},
                            {"num_filter", 6 * groups},
                            {"num_group", groups},
                            {"no_bias", !bias}}));
}

Graph one_layer(DType dtype, int64_t channels, int64_t groups = 1, bool training = false,
                bool bias = false) {
  Maker m;
  m.graph.training = training;
  const ValueId x = m.input({2, channels, 8, 6}, dtype);
  return m.finish({first_layer(m, x, dtype, groups, bias)});
}

// Returns the channels of the first convolution's data and weight, which must be equal.
int64_t channels_of_convolution(const Graph& g) {
  const Node& n = find_op(g, "Convolution");
  const Shape &data = g.spec(n.inputs[0]).shape, &weight = g.spec(n.inputs[1]).shape;
  EXPECT_EQ(layout_of(n), "NHWC");
  EXPECT_EQ(data[3], weight[3]);
  return data[3];
}

TEST(ChannelsLast, ImagesOfFewChannelsArePadded) {
  const int64_t expected[] = {0, 4, 4, 4, 4, 8, 8, 8, 8, 9, 10};
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (int64_t channels = 1; channels <= 10; ++channels) {
      SCOPED_TRACE(str(channels, " channels of ", dtype_name(dtype)));
      const Graph before = one_layer(dtype, channels);
      const Graph after = channels_last(before, kGpu);
      verify(after, "channels-last");
      EXPECT_EQ(channels_of_convolution(after), expected[channels]);
      EXPECT_EQ(count_ops(after, "Pad"), expected[channels] == channels ? 0 : 2);
      EXPECT_EQ(count_ops(after, "Concat") + count_ops(after, "_zeros"), 0);
      expect_same_values(before, after);
      EXPECT_EQ(channels_last(after, kGpu).text(), after.text());
    }
}

TEST(ChannelsLast, GroupsFloatsAndTheCpuAreNotPadded) {
  EXPECT_EQ(count_ops(channels_last(one_layer(DType::kFloat16, 6, 3), kGpu), "Pad"), 0);
  const Graph floats = one_layer(DType::kFloat32, 3);
  EXPECT_EQ(channels_last(floats, kGpu).text(), floats.text());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Graph g = one_layer(dtype, 3);
    EXPECT_EQ(channels_last(g, PassContext{}).text(), g.text());
  }
}

TEST(ChannelsLast, OnlyValuesThatEnterArePadded) {
  Maker m;
  const ValueId x = m.input({2, 3, 8, 6}, DType::kFloat16);
  const auto conv = [&](ValueId data) {
    const int64_t channels = m.graph.spec(data).shape[1];
    return m.op("Convolution", {data, m.parameter({6, channels, 1, 1}, DType::kFloat16)},
                {{"kernel", Shape{1, 1}}, {"num_filter", 6}, {"no_bias", true}});
  };
  const ValueId left = conv(x), right = conv(x);
  const Graph before = m.finish({conv(m.op("broadcast_add", {left, right}))});
  const Graph after = channels_last(before, kGpu);
  verify(after, "channels-last");
  // The image is padded once, and the weights of its two readers. The six channels of the sum stay
  // six.
  EXPECT_EQ(count_ops(after, "Pad"), 3);
  expect_same_values(before, after);
}

TEST(ChannelsLast, BatchNormFoldsIntoPaddedWeights) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const bool bias : {false, true}) {
      const Graph before = one_layer(dtype, 3, 1, false, bias);
      const Graph turned = channels_last(before, kGpu);
      const std::vector<uint8_t> is_static = find_static_nodes(turned);
      const ValueId weight = find_op(turned, "Convolution").inputs[1];
      EXPECT_TRUE(is_static[static_cast<size_t>(weight.node)]);
      const Graph after = remove_dead(fold_batch_norm(turned, kGpu), kGpu);
      verify(after, "fold-batch-norm");
      EXPECT_EQ(count_ops(after, "BatchNorm"), 0);
      EXPECT_EQ(channels_of_convolution(after), 4);
      EXPECT_TRUE(find_static_nodes(
          after)[static_cast<size_t>(find_op(after, "Convolution").inputs[1].node)]);
      expect_same_values(before, after);
      const Graph whole = run_passes(Pipeline::kInference, before, kGpu);
      EXPECT_EQ(count_ops(whole, "BatchNorm"), 0);
      expect_same_values(before, whole);
    }
}

TEST(ChannelsLast, GradientsOfPaddedImagesAndWeights) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const int64_t channels : {1, 3, 6}) {
      SCOPED_TRACE(str(channels, " channels of ", dtype_name(dtype)));
      const Graph before = one_layer(dtype, channels, 1, true);
      const Graph after = channels_last(before, kGpu);
      ASSERT_EQ(count_ops(after, "Pad"), 2);
      const auto want = run_with_gradients(before, random_arrays(before, 3));
      const auto got = run_with_gradients(after, random_arrays(after, 3));
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(want[i]->spec(), got[i]->spec());
        expect_close(got[i], want[i], dtype == DType::kFloat16 ? 2e-2 : 1e-1);
      }
    }
}

}  // namespace
}  // namespace mxlite::graph
