// Loops and branches of symbols without Python: cutting subgraphs, inference, runs, files.
#include <gtest/gtest.h>

#include "cpp/symbol/compose.h"
#include "cpp/symbol/control_flow_files.h"
#include "cpp/symbol/inference.h"
#include "tests/cpp/errors.h"

namespace mxlite::symbol {
namespace {

NodeOutput call(const char* op, NodeOutputs inputs, const char* name, Attributes attrs = {}) {
  Given given{op, {}, std::move(attrs)};
  for (size_t i = 0; i < inputs.size(); ++i) given.inputs[static_cast<int>(i)] = inputs[i];
  return {compose(std::move(given), {name, ""}), 0};
}

NodeOutput variable(const char* name) { return {make_variable(name), 0}; }

NDArrayRef array(const Shape& shape, const std::vector<float>& values) {
  const NDArrayRef made = NDArray::empty({shape, DType::kFloat32}, {});
  std::copy(values.begin(), values.end(), static_cast<float*>(made->data()));
  return made;
}

std::vector<float> values_of(const NDArrayRef& array) {
  EXPECT_TRUE(array->contiguous());
  array->wait_to_read();
  const auto* first = static_cast<const float*>(array->data());
  return {first, first + array->size()};
}

NodeRef node_of(ControlFlowCall made, const char* name) {
  made.call.name = name;
  return make_node(std::make_shared<const Call>(std::move(made.call)), std::move(made.inputs));
}

// body(row, state): row * weight + state is the output and the new state.
NodeRef running_sum() {
  const NodeOutput data = variable("data"), start = variable("start"), weight = variable("weight");
  const NodeOutput row = variable("row"), state = variable("state");
  const Attributes mark{{kSubgraphName, "sum0"}};
  const NodeOutput product = call("elemwise_mul", {row, weight}, "product", mark);
  const NodeOutput sum = call("elemwise_add", {product, state}, "sum", mark);
  return node_of(
      make_foreach(cut_subgraph({sum, sum}, {row.node, state.node}, "sum0"), {data}, {start}),
      "loop");
}

// while i < limit: i = i + 1, output is i * 2
NodeRef counting() {
  const NodeOutput start = variable("start"), limit = variable("limit");
  const NodeOutput i = variable("i"), j = variable("j");
  const NodeOutput less = call("_lesser", {i, limit}, "less", {{kSubgraphName, "cond0"}});
  const Attributes mark{{kSubgraphName, "func0"}};
  const NodeOutput next =
      call("_plus_scalar", {j}, "next", {{kSubgraphName, "func0"}, {"scalar", "1"}});
  const NodeOutput twice = call("elemwise_add", {next, next}, "twice", mark);
  return node_of(make_while_loop(cut_subgraph({less}, {i.node}, "cond0"),
                                 cut_subgraph({twice, next}, {j.node}, "func0"), {start}, 4),
                 "count");
}

NDArrays run(const NodeRef& node, const std::vector<NDArrayRef>& inputs) {
  return node->call->host()->call(inputs);
}

NodeOutputs outputs_of(const NodeRef& node) {
  NodeOutputs outputs;
  for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back({node, i});
  return outputs;
}

FileHooks hooks() {
  FileHooks made;
  made.make_call = make_call;
  return made;
}

TEST(SymbolControlFlow, CutsOutWhatIsMarked) {
  const NodeOutput outside = call("relu", {variable("x")}, "outside");
  const NodeOutput argument = variable("arg");
  const Attributes mark{{kSubgraphName, "f0"}};
  const NodeOutput inner = call("elemwise_add", {argument, outside}, "inner", mark);
  const NodeOutput both = call("elemwise_add", {inner, outside}, "both", mark);
  const CutSubgraph cut = cut_subgraph({both, argument}, {argument.node}, "f0");
  ASSERT_EQ(cut.imports, NodeOutputs{outside});  // once, although it is used twice
  ASSERT_EQ(cut.variables.size(), 2u);
  EXPECT_EQ(cut.variables[0], argument.node);
  EXPECT_EQ(cut.variables[1]->name(), "outside_output");
  EXPECT_NE(cut.heads[0].node, both.node);
  EXPECT_EQ(cut.heads[0].node->call, both.node->call);
  EXPECT_EQ(cut.heads[1].node, argument.node);
  EXPECT_EQ(used_variables(cut.heads, cut.variables), (std::vector<int>{0, 1}));
}

TEST(SymbolControlFlow, ImportsOfOneNameAreToldApart) {
  const NodeOutput first = variable("x"), second = variable("x"), argument = variable("x");
  const NodeOutput sum = call("elemwise_sub", {first, second}, "sum", {{kSubgraphName, "f0"}});
  const CutSubgraph cut = cut_subgraph({sum, argument}, {argument.node}, "f0");
  ASSERT_EQ(cut.variables.size(), 3u);
  EXPECT_EQ(cut.variables[1]->name(), "x_import0");
  EXPECT_EQ(cut.variables[2]->name(), "x_import1");
}

TEST(SymbolControlFlow, NamesOfSubgraphsAreUnique) {
  const std::string first = unique_subgraph_name("loop_of_a_test");
  EXPECT_EQ(first, "loop_of_a_test0");
  EXPECT_EQ(unique_subgraph_name("loop_of_a_test"), "loop_of_a_test1");
}

TEST(SymbolControlFlow, ForeachRunsAndInfers) {
  const NodeRef loop = running_sum();
  ASSERT_EQ(loop->num_inputs(), 3);
  const NDArrays made =
      run(loop, {array({3, 2}, {1, 2, 3, 4, 5, 6}), array({2}, {10, 20}), array({2}, {1, 2})});
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(values_of(made[0]), (std::vector<float>{11, 24, 14, 32, 19, 44}));
  EXPECT_EQ(values_of(made[1]), (std::vector<float>{19, 44}));
  Inference inference(outputs_of(loop), {{"data", Shape{7, 2}}}, {}, UnknownExtent::kZero);
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  EXPECT_EQ(inference.shape(*loop, 0), (Shape{7, 2}));
  EXPECT_EQ(inference.shape(*loop->inputs[1].node, 0), (Shape{2}));  // start, from the body
  EXPECT_THROW(run(loop, {array({}, {1}), array({2}, {1, 2}), array({2}, {1, 2})}), Error);
}

TEST(SymbolControlFlow, WhileLoopsPadWhatTheyDoNotMake) {
  const NodeRef loop = counting();
  ASSERT_EQ(loop->num_inputs(), 2);
  NDArrays made = run(loop, {array({1}, {0}), array({1}, {3})});
  EXPECT_EQ(values_of(made[0]), (std::vector<float>{2, 4, 6, 0}));
  EXPECT_EQ(values_of(made[1]), (std::vector<float>{3}));
  made = run(loop, {array({1}, {9}), array({1}, {3})});
  EXPECT_EQ(values_of(made[0]), (std::vector<float>(4, 0)));
  EXPECT_EQ(made[0]->shape(), (Shape{4, 1}));
  EXPECT_EQ(values_of(made[1]), (std::vector<float>{9}));
  // A condition of two elements is no condition.
  const auto two = array({2}, {0, 0});
  EXPECT_NE(error_of([&] {
              run(loop, {two, two});
            }).find("exactly one element"),
            std::string::npos);
}

TEST(SymbolControlFlow, FilesGiveTheSameLoops) {
  for (const NodeRef& node : {running_sum(), counting()}) {
    const std::string text = to_json(outputs_of(node), true, false);
    const NodeOutputs again = load(text, "a text", hooks());
    EXPECT_EQ(to_json(again, true, false), text);
    EXPECT_EQ(again[0].node->inputs.size(), node->inputs.size());
  }
}

TEST(SymbolControlFlow, DamagedLoopsAreRefused) {
  const std::string text = to_json(outputs_of(counting()), true, false);
  const std::pair<const char*, const char*> faults[] = {
      {R"("func_var_locs": "[0]")", R"("func_var_locs": "[0, 0]")"},
      {R"("func_var_locs": "[0]")", R"("func_var_locs": "[]")"},
      {R"("cond_input_locs": "[0, 1]")", R"("cond_input_locs": "[0]")"},
      {R"("cond_input_locs": "[0, 1]")", R"("cond_input_locs": "[0, 2]")"},
      {R"("cond_input_locs": "[0, 1]")", R"("cond_input_locs": "[0, 99999999999999999999]")"},
      {R"("max_iterations": "4")", R"("max_iterations": "0")"},
      {R"("num_outputs": "2")", R"("num_outputs": "-9223372036854775808")"},
      {R"("num_out_data": "1")", R"("num_out_data": "0")"},
      {R"("num_out_data": "1")", R"("other": "1")"},
  };
  for (const auto& [right, wrong] : faults) {
    std::string damaged = text;
    const size_t at = damaged.find(right);
    ASSERT_NE(at, std::string::npos) << right << "\n" << text;
    damaged.replace(at, std::string_view(right).size(), wrong);
    try {
      load(damaged, "a text", hooks());
      FAIL() << wrong;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("the subgraphs of _while_loop are damaged"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace mxlite::symbol
