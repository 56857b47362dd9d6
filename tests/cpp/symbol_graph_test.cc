// Tests symbols without Python: shared calls, passes and traces.
#include <gtest/gtest.h>

#include "cpp/graph/trace.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/files.h"
#include "cpp/symbol/from_graph.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/passes/passes.h"
#include "tests/cpp/errors.h"

namespace mxlite::symbol {
namespace {

NodeRef call(const char* alias, std::map<int, NodeOutput> inputs, Attributes attrs,
             const char* name) {
  return compose({alias, std::move(inputs), std::move(attrs)}, {name, "train.py:12"});
}

// data -> fc -> bn -> act
NodeOutputs small_net() {
  const NodeRef data = make_variable("data");
  const NodeRef fc = call("FullyConnected", {{0, {data, 0}}},
                          {{"num_hidden", "4"}, {"weight_lr_mult", "2"}}, "fc");
  const NodeRef bn = call("BatchNorm", {{0, {fc, 0}}}, {}, "bn");
  return {{call("Activation", {{0, {bn, 0}}}, {{"act_type", "relu"}}, "act"), 0}};
}

TEST(SymbolGraph, CompletingWeightsChecksTheNumberOfInputs) {
  std::vector<TensorSpec> one{{Shape{2, 3}, DType::kFloat32}};
  const Call call = make_call("FullyConnected", {{"num_hidden", "2"}});
  EXPECT_HAS(error_of([&] { call.complete(one); }, ErrorKind::kType),
             "the number of inputs must be 3");
}

TEST(SymbolGraph, CopiesShareCallsUntilOneIsEdited) {
  const NodeOutputs net = small_net();
  const NodeOutputs copy = substituted(net, {});
  EXPECT_NE(copy[0].node, net[0].node);
  EXPECT_EQ(copy[0].node->call, net[0].node->call);
  copy[0].node->edit([](Call& call) {
    call.name.text = "other";
    call.attrs["__lr_mult__"] = "3";
  });
  EXPECT_EQ(copy[0].node->name(), "other");
  EXPECT_EQ(net[0].node->name(), "act");
  EXPECT_FALSE(net[0].node->call->attrs.contains("__lr_mult__"));
}

TEST(SymbolGraph, PassesAddAndRemoveCastsWithoutShapes) {
  for (const Pass& pass : passes()) EXPECT_HAS(pass.purpose, " ") << pass.name;
  const NodeOutputs net = small_net();
  const auto rules = std::make_shared<amp::Rules>();
  rules->classes[&ops().get("BatchNorm")] = AmpClass::kFloat32;
  const auto producer = [](const NodeOutput& entry, size_t input) {
    return entry.node->inputs[input];
  };

  const NodeOutputs cast = run_pass("mixed-precision", net, {rules, {"act"}});
  const NodeOutput before_act = producer(cast[0], 0);  // act was asked to run in float32
  EXPECT_EQ(before_act.node->name(), "bn_output_amp_cast_float32");
  const NodeOutput bn = producer(before_act, 0);
  EXPECT_EQ(bn.node->inputs[3].node->name(), "bn_moving_mean");  // states are not cast
  const NodeOutput fc = producer(producer(bn, 0), 0);
  EXPECT_EQ(fc.node->name(), "fc");
  EXPECT_EQ(producer(fc, 1).node->name(), "fc_weight_amp_cast_bfloat16");
  EXPECT_EQ(fc.node->call, topological_order(net)[3]->call);

  const NodeOutputs lowered = run_pass("lower-parameters", cast, {rules, {"data"}});
  for (const NodeRef& node : topological_order(lowered)) {
    const bool is_low = node->name() == "fc_weight" || node->name() == "fc_bias";
    EXPECT_EQ(node->call->attrs.contains("__dtype__"), is_low) << node->name();
  }
  EXPECT_EQ(to_json(cast, true, false), to_json(net, true, false));
  EXPECT_NE(to_json(cast, false, false), to_json(net, false, false));
  EXPECT_THROW(run_pass("mixed-precision", net, {rules, {"fc9"}}), Error);
  EXPECT_THROW(run_pass("remove-cast", net), Error);
}

TEST(SymbolGraph, UnknownTypesAreCastToTheWidest) {
  const NodeRef x = make_variable("x"), y = make_variable("y");
  const NodeRef sum = call("elemwise_add", {{0, {x, 0}}, {1, {y, 0}}}, {}, "sum");
  const auto rules = std::make_shared<amp::Rules>();
  const NodeOutputs cast = run_pass("mixed-precision", {{sum, 0}}, {rules, {}});
  const NodeOutputs& inputs = cast[0].node->inputs;
  EXPECT_EQ(inputs[0].node->name(), "x_amp_multicast");
  EXPECT_EQ(inputs[1], (NodeOutput{inputs[0].node, 1}));
}

TEST(SymbolGraph, PassesQuantizeCalibrateAndFold) {
  const NodeRef data = make_variable("data");
  const NodeRef conv =
      call("Convolution", {{0, {data, 0}}},
           {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "True"}}, "conv");
  const NodeRef bn = call("BatchNorm", {{0, {conv, 0}}}, {}, "bn");
  const NodeRef act = call("Activation", {{0, {bn, 0}}}, {{"act_type", "relu"}}, "act");
  const NodeRef fc = call("FullyConnected", {{0, {act, 0}}}, {{"num_hidden", "2"}}, "fc");
  const auto how = std::make_shared<Quantization>();
  how->calibrated = true;
  how->parameters = {"conv_weight",   "bn_gamma",  "bn_beta", "bn_moving_mean",
                     "bn_moving_var", "fc_weight", "fc_bias"};
  how->ranges = {{"data", {-1.0f, 1.0f}}, {"act_output", {0.0f, 2.0f}}};
  const auto run = [&](const char* pass, const NodeOutputs& heads,
                       std::set<std::string> kept = {}) {
    return run_pass(pass, heads, {.precision = {}, .kept = std::move(kept), .quantization = how});
  };
  const auto names = [](const NodeOutputs& heads) {
    std::vector<std::string> found;
    for (const NodeRef& node : topological_order(heads)) found.push_back(node->name());
    return found;
  };

  const NodeOutputs quantized = run("quantize-layers", {{fc, 0}});
  const std::vector<std::string> expected = {"data",
                                             "data_quantize",
                                             "conv_weight_quantize",
                                             "conv_bias_folded",
                                             "conv_weight_quantize_scale",
                                             "quantized_sg_mkldnn_conv_bn_act_0",
                                             "fc_weight_quantize",
                                             "fc_bias",
                                             "fc_weight_quantize_scale",
                                             "quantized_sg_mkldnn_fully_connected_0"};
  EXPECT_EQ(names(run("fold-parameters", run("calibrate", quantized))), expected);

  // Without ranges, the convolution returns floats, and a separate node quantizes them.
  how->ranges.clear();
  std::vector<std::string> uncalibrated = expected;
  uncalibrated.insert(uncalibrated.begin() + 6, "act_output_quantize");
  EXPECT_EQ(names(run("fold-parameters", run("calibrate", quantized))), uncalibrated);

  const NodeOutputs kept = run("quantize-layers", {{fc, 0}}, {"conv", "fc"});
  EXPECT_EQ(kept[0].node->op(), "FullyConnected");
  EXPECT_THROW(run_pass("quantize-layers", {{fc, 0}}), Error);
}

TEST(SymbolGraph, TracesShareCallsWithSymbols) {
  const NodeOutputs net = small_net();
  const Listing listing(net);
  ASSERT_EQ(listing.graph.nodes.size(), listing.nodes.size());
  EXPECT_EQ(listing.graph.inputs.size(), 7u);
  graph::Trace trace("net", {}, false, false, false);
  std::vector<NDArrayRef> arrays;
  for (const int32_t id : listing.graph.inputs) {
    const bool data = listing.graph.node(id).call->name.text == "data";
    const TensorSpec spec{data ? Shape{2, 3} : Shape::unknown(), DType::kFloat32};
    arrays.push_back(data ? trace.add_input(spec) : trace.add_parameter(spec));
  }
  const graph::Graph traced = trace.finish(trace.inline_graph(listing.graph, arrays, {}));
  std::vector<graph::CallRef> expected, found;
  for (const NodeRef& node : topological_order(net))
    if (!node->is_variable()) expected.push_back(node->call);
  for (const graph::Node& node : traced.nodes)
    if (node.op()) found.push_back(node.call);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(traced.spec(traced.outputs[0]), (TensorSpec{Shape{2, 4}, DType::kFloat32}));
  EXPECT_EQ(arrays[1]->shape(), (Shape{4, 3}));  // fc_weight, as Python sees it
  // In the opposite direction, names, attributes and lines are those of the symbol.
  NodeOutputs leaves;
  for (const int32_t id : listing.graph.inputs)
    leaves.push_back({listing.nodes[static_cast<size_t>(id)], 0});
  const NodeOutputs again = from_graph(traced, leaves, TraceNames({}), {});
  EXPECT_EQ(to_json(again, true, false), to_json(net, true, false));
  EXPECT_EQ(again[0].node->call->name.label(), "act (train.py:12)");
}

TEST(SymbolGraph, ListingsRefuseOutputsThatNodesDoNotHave) {
  NodeOutputs net = small_net();
  net[0].output = 1;
  EXPECT_THROW(Listing{net}, Error);
}

}  // namespace
}  // namespace mxlite::symbol
