// Tests which convolutions add up channels for a BatchNorm after them, and that values, statistics
// and gradients stay those of the separate operators.
#include "cpp/graph/passes/training_passes.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

const PassContext kOnGpu{{DeviceType::kCUDA, 0}, true, false};

struct Options {
  DType dtype = DType::kFloat16;
  bool channels_last = true, bias = false, global_stats = false, fix_gamma = false;
  int64_t channels = 16, filters = 24, groups = 1;
};

ValueId convolution(Maker& m, ValueId data, const Options& o) {
  const int64_t inputs = m.graph.spec(data).shape[o.channels_last ? 3 : 1] / o.groups;
  const Shape weight =
      o.channels_last ? Shape{o.filters, 3, 3, inputs} : Shape{o.filters, inputs, 3, 3};
  std::vector<ValueId> in{data, m.parameter(weight, o.dtype)};
  if (o.bias) in.push_back(m.parameter(Shape{o.filters}, o.dtype));
  return m.op("Convolution", in,
              {{"kernel", Shape{3, 3}},
               {"pad", Shape{1, 1}},
               {"num_filter", o.filters},
               {"num_group", o.groups},
               {"no_bias", !o.bias},
               {"layout", std::string(o.channels_last ? "NHWC" : "NCHW")}});
}

ValueId norm(Maker& m, const char* op, ValueId data, const Options& o, ValueId added = {},
             bool mean_var = false) {
  std::vector<ValueId> in{data};
  for (int i = 0; i < 4; ++i)
    in.push_back(m.parameter(Shape{o.filters}, is_half(o.dtype) ? DType::kFloat32 : o.dtype));
  if (added.node >= 0) in.push_back(added);
  const int64_t axis = o.channels_last ? 3 : 1;
  if (mean_var)
    return m.op(op, in, {{"fix_gamma", o.fix_gamma}, {"axis", axis}, {"output_mean_var", true}});
  return m.op(op, in,
              {{"fix_gamma", o.fix_gamma},
               {"eps", 1e-3},
               {"use_global_stats", o.global_stats},
               {"axis", axis}});
}

ValueId image(Maker& m, const Options& o) {
  m.graph.training = true;
  return m.input(o.channels_last ? Shape{2, 9, 7, o.channels} : Shape{2, o.channels, 9, 7},
                 o.dtype);
}

// Returns outputs, gradients, and then the parameters as the run left them.
std::vector<NDArrayRef> results_of(const Graph& graph) {
  const Arrays arrays = random_arrays(graph, 3);
  std::vector<NDArrayRef> results = run_with_gradients(graph, arrays);
  results.insert(results.end(), arrays.parameters.begin(), arrays.parameters.end());
  return results;
}

void expect_joined(const Graph& traced, int count) {
  const Graph g = fuse_statistics(traced, kOnGpu);
  verify(g, "fuse-statistics");
  EXPECT_EQ(count_ops(g, "_convolution_batch_norm"), count) << g.text();
  EXPECT_EQ(count_ops(g, "Convolution"), count_ops(traced, "Convolution") - count);
  const std::vector<NDArrayRef> got = results_of(g), expected = results_of(traced);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(got[i], expected[i], 0);
  }
}

TEST(FuseStatistics, ConvolutionsAndWhatFollowsBatchNorm) {
  for (const bool fix_gamma : {false, true}) {
    Options o;
    o.fix_gamma = fix_gamma;
    for (const char* op : {"BatchNorm", "_batch_norm_relu"}) {
      Maker m;
      const ValueId x = image(m, o);
      expect_joined(m.finish({norm(m, op, convolution(m, x, o), o)}), 1);
    }
    Maker m;
    const ValueId x = image(m, o);
    const ValueId first = norm(m, "_batch_norm_relu", convolution(m, x, o), o);
    const ValueId second = convolution(m, first, o);
    expect_joined(m.finish({norm(m, "_batch_norm_add_relu_bits", second, o, first)}), 2);
  }
}

TEST(FuseStatistics, MeansAndVariancesThatAreOutputs) {
  Options o;
  Maker m;
  const ValueId x = image(m, o);
  const ValueId y = norm(m, "BatchNorm", convolution(m, x, o), o, {}, true);
  expect_joined(m.finish({y, {y.node, 1}, {y.node, 2}}), 1);
}

TEST(FuseStatistics, RunningStatisticsMove) {
  Options o;
  Maker m;
  const ValueId x = image(m, o);
  const Graph g =
      fuse_statistics(m.finish({norm(m, "BatchNorm", convolution(m, x, o), o)}), kOnGpu);
  const Arrays arrays = random_arrays(g, 3), before = random_arrays(g, 3);
  run_eagerly(g, arrays);
  for (const size_t statistic : {3, 4})  // after weight, gamma and beta
    EXPECT_NE(values_of(arrays.parameters[statistic]), values_of(before.parameters[statistic]));
}

TEST(FuseStatistics, NothingElse) {
  const auto kept = [](auto change, auto finish) {
    Options o;
    change(o);
    Maker m;
    const ValueId x = image(m, o);
    const Graph traced = finish(m, o, convolution(m, x, o));
    EXPECT_EQ(count_ops(fuse_statistics(traced, kOnGpu), "_convolution_batch_norm"), 0)
        << traced.text();
  };
  const auto plain = [](Maker& m, const Options& o, ValueId c) {
    return m.finish({norm(m, "BatchNorm", c, o)});
  };
  const auto same = [](Options&) {};
  kept([](Options& o) { o.dtype = DType::kFloat32; }, plain);
  kept([](Options& o) { o.dtype = DType::kBFloat16; }, plain);
  kept([](Options& o) { o.channels_last = false; }, plain);
  kept([](Options& o) { o.bias = true; }, plain);
  kept([](Options& o) { o.groups = 2; }, plain);
  kept([](Options& o) { o.channels = 12; }, plain);
  kept([](Options& o) { o.filters = 20; }, plain);
  kept([](Options& o) { o.global_stats = true; }, plain);
  kept(same, [](Maker& m, const Options& o, ValueId c) {  // the result is read elsewhere
    return m.finish({norm(m, "BatchNorm", c, o), m.op("tanh", {c})});
  });
  kept(same, [](Maker& m, const Options&, ValueId c) {  // rows are normalized, not channels
    std::vector<ValueId> in{c};
    for (int i = 0; i < 4; ++i) in.push_back(m.parameter(Shape{9}, DType::kFloat32));
    return m.finish({m.op("BatchNorm", in, {{"axis", int64_t{1}}})});
  });
  kept(same, [](Maker& m, const Options& o, ValueId c) {  // another node writes the weight
    const ValueId weight = m.graph.node(c).inputs[1];
    const Shape shape = m.graph.spec(weight).shape;
    const ValueId other = m.parameter(shape, o.dtype), grad = m.parameter(shape, o.dtype);
    const ValueId update =
        m.op("sgd_mom_update", {other, grad, weight}, {{"lr", 0.1}, {"momentum", 0.9}});
    return m.finish({norm(m, "BatchNorm", c, o), update});
  });
  kept(same, [](Maker& m, const Options& o, ValueId c) {  // inference
    const ValueId y = norm(m, "BatchNorm", c, o);
    m.graph.training = false;
    return m.finish({y});
  });
  Options o;
  Maker m;
  const ValueId x = image(m, o);
  const Graph traced = m.finish({norm(m, "BatchNorm", convolution(m, x, o), o)});
  EXPECT_EQ(count_ops(fuse_statistics(traced, {{}, true, false}), "_convolution_batch_norm"), 0)
      << "on the CPU";
}

}  // namespace
}  // namespace mxlite::graph::test
