// The channels-last pass: which nodes it converts, where it transposes, and equal values.
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
  // The image in, two 3x3 weights, `left` out; 1x1 weights and 1x1 images move nothing.
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

}  // namespace
}  // namespace mxlite::graph
