// Symbols without Python: composition, inference in both directions, files.
#include <gtest/gtest.h>

#include "cpp/symbol/compose.h"
#include "cpp/symbol/files.h"
#include "cpp/symbol/inference.h"

namespace mxlite::symbol {
namespace {

NodeRef call(const char* alias, std::map<int, Entry> inputs, Attributes attrs, const char* name) {
  return compose({alias, std::move(inputs), std::move(attrs)}, name);
}

// data -> fc -> bn -> act
Entries small_net() {
  const NodeRef data = make_variable("data");
  const NodeRef fc = call("FullyConnected", {{0, {data, 0}}},
                          {{"num_hidden", "4"}, {"weight_lr_mult", "2"}}, "fc");
  const NodeRef bn = call("BatchNorm", {{0, {fc, 0}}}, {}, "bn");
  return {{call("Activation", {{0, {bn, 0}}}, {{"act_type", "relu"}}, "act"), 0}};
}

FileHooks hooks() {
  FileHooks made;
  made.make_call = make_op_call;
  return made;
}

std::vector<std::string> names(const Entries& heads, bool states) {
  const Variables found = variables_of(topological_order(heads));
  std::vector<std::string> result;
  for (size_t i = 0; i < found.all.size(); ++i)
    if (found.is_state[i] == states) result.push_back(found.all[i]->name);
  return result;
}

TEST(SymbolGraph, MakesVariablesForInputsThatAreLeftOut) {
  const Entries net = small_net();
  EXPECT_EQ(names(net, false),
            (std::vector<std::string>{"data", "fc_weight", "fc_bias", "bn_gamma", "bn_beta"}));
  EXPECT_EQ(names(net, true), (std::vector<std::string>{"bn_moving_mean", "bn_moving_var"}));
  const Node& fc = *topological_order(net)[3];
  EXPECT_EQ(fc.name, "fc");
  EXPECT_EQ(fc.attrs, (Attributes{{"num_hidden", "4"}}));
  EXPECT_EQ(fc.inputs[1].node->attrs.at("__lr_mult__"), "2");
  EXPECT_EQ(net[0].node->output_name(0), "act_output");
  EXPECT_EQ(weight_names(net), (std::vector<std::string>{"bn_beta", "bn_gamma", "bn_moving_mean",
                                                         "bn_moving_var", "fc_bias", "fc_weight"}));
}

TEST(SymbolGraph, InfersForwardAndBackward) {
  const Entries net = small_net();
  Inference forward(net, {{"data", Shape{2, 3}}}, {{"data", DType::kFloat16}},
                    UnknownExtent::kZero);
  forward.run_types(DType::kFloat32);
  forward.run_shapes();
  EXPECT_EQ(forward.shape(*net[0].node, 0), (Shape{2, 4}));
  int seen = 0;
  for (const NodeRef& node : forward.nodes()) {
    if (node->name == "fc_weight") {
      ++seen;
      EXPECT_EQ(forward.shape(*node, 0), (Shape{4, 3}));
      EXPECT_EQ(forward.type(*node, 0), DType::kFloat16);
    } else if (node->name == "bn_gamma") {
      ++seen;
      EXPECT_EQ(forward.type(*node, 0), DType::kFloat32);
    }
  }
  EXPECT_EQ(seen, 2);
  Inference partly(net, {{"data", Shape{-1, 3}}}, {}, UnknownExtent::kZero);
  partly.run_types(DType::kFloat32);
  partly.run_shapes();
  EXPECT_EQ(partly.shape(*net[0].node, 0), (Shape{-1, 4}));

  const NodeRef start = call("_zeros", {}, {{"shape", "(0, 4)"}}, "start");
  const NodeRef sum = call("elemwise_add", {{0, net[0]}, {1, {start, 0}}}, {}, "sum");
  Inference backward({{sum, 0}}, {{"data", Shape{5, 3}}}, {}, UnknownExtent::kZero);
  backward.run_types(DType::kFloat32);
  backward.run_shapes();
  EXPECT_EQ(backward.shape(*start, 0), (Shape{5, 4}));
  EXPECT_EQ(backward.completed_calls().count(start.get()), 1u);
}

TEST(SymbolGraph, NamesTheNodeWhoseShapesDoNotFit) {
  Inference wrong(small_net(), {{"data", Shape{2, 3}}, {"fc_weight", Shape{4, 5}}}, {},
                  UnknownExtent::kZero);
  wrong.run_types(DType::kFloat32);
  try {
    wrong.run_shapes();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kShape);
    EXPECT_NE(std::string(error.what()).find("operator fc"), std::string::npos) << error.what();
  }
}

TEST(SymbolGraph, CompletingWeightsChecksTheNumberOfInputs) {
  std::vector<TensorSpec> one{{Shape{2, 3}, DType::kFloat32}};
  const OpCall call("FullyConnected", {{"num_hidden", "2"}});
  try {
    call.complete(one);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kType);
    EXPECT_NE(std::string(error.what()).find("1 inputs given, 3 expected"), std::string::npos);
  }
}

TEST(SymbolGraph, ErrorsNameTheLineThatComposedTheNode) {
  const NodeRef node = call("Flatten", {}, {}, "flat");
  EXPECT_EQ(node->label(), "flat");
  EXPECT_EQ(node->error_text("bad"), "Error in operator flat: bad");
  node->origin = "train.py:12";
  const NodeRef copy = substituted({{node, 0}}, {})[0].node;
  EXPECT_EQ(copy->label(), "flat (train.py:12)");
  EXPECT_EQ(copy->error_text("bad"), "Error in operator flat: bad\n    composed at train.py:12");
}

TEST(SymbolGraph, FilesGiveTheSameGraph) {
  const std::string text = to_json(small_net(), true, hooks());
  const Entries again = load(text, "a text", hooks());
  EXPECT_EQ(to_json(again, true, hooks()), text);
  EXPECT_THROW(load("{}", "a text", hooks()), FileError);
  EXPECT_THROW(load(text.substr(0, text.size() / 2), "a text", hooks()), FileError);
}

TEST(SymbolGraph, LongChainsEndWithoutRecursion) {
  Entry last{make_variable("x"), 0};
  for (int i = 0; i < 300000; ++i)
    last = {make_node("_copy", "c", {}, {last}, make_op_call("_copy", {})), 0};
  EXPECT_EQ(topological_order({last}).size(), 300001u);
}

}  // namespace
}  // namespace mxlite::symbol
