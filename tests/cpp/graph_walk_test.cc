// Tests the walk over nodes: order, lifetimes of values, hooks around a step, and places in errors.
#include <gtest/gtest.h>

#include <memory>

#include "cpp/graph/walk.h"
#include "tests/cpp/errors.h"

namespace mxlite::graph {
namespace {

using Value = std::shared_ptr<int>;
using Values = std::vector<Value>;

// Step i returns the sum of its inputs plus i, and twice that.
class Sums : public Visitor<Value> {
 public:
  void before(size_t step, Values& inputs) override {
    log += str("b", step);
    if (replaced && step == 0) inputs[0] = std::make_shared<int>(100);
  }
  Values run(size_t step, const Values& inputs) override {
    log += str("r", step);
    MX_CHECK(static_cast<int>(step) != failing, "no such sum");
    int sum = static_cast<int>(step);
    for (const Value& input : inputs) sum += *input;
    Values outputs{std::make_shared<int>(sum), std::make_shared<int>(2 * sum)};
    made.insert(made.end(), outputs.begin(), outputs.end());
    alive.push_back(0);
    for (const std::weak_ptr<int>& value : made) alive.back() += !value.expired();
    return outputs;
  }
  void after(size_t step, const Values&, const Values& outputs) override {
    log += str("a", step, "=", *outputs[0], " ");
  }
  std::string place(size_t step) const override { return str("in step ", step); }

  std::string log;
  bool replaced = false;
  int failing = -1;
  std::vector<std::weak_ptr<int>> made;
  std::vector<int> alive;  // outputs of all steps, behind each step
};

// (x) -> step 0 -> (a, b); (a, x) -> step 1 -> (c, d); (c, c) -> step 2 -> (e, f). Results: e, x.
struct Fixture {
  Route route;
  Route::Slot x = route.add_values();
  Fixture() {
    const Route::Slot a = route.add_values(2), c = route.add_values(2), e = route.add_values(2);
    route.add_step({x}, {a, a + 1});
    route.add_step({a, x}, {c, c + 1});
    route.add_step({c, c}, {e, e + 1});
    route.finish({e, x});
  }
  Values walked(Sums& sums) {
    Values values(route.num_values());
    values[x] = std::make_shared<int>(5);
    return walk<Value>(route, std::move(values), sums);
  }
};

TEST(Walk, RunsStepsInOrderBetweenTheirHooks) {
  Sums sums;
  const Values results = Fixture().walked(sums);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(*results[0], 24);  // (5 + 5 + 1) * 2 + 2
  EXPECT_EQ(*results[1], 5);
  EXPECT_EQ(sums.log, "b0r0a0=5 b1r1a1=11 b2r2a2=24 ");
}

TEST(Walk, EndsValuesWithTheirLastUse) {
  Sums sums;
  const Values results = Fixture().walked(sums);
  // After step 0 the values a and b are alive. Step 1 still holds its input a, but b, which no step
  // uses, is released. The same holds for c.
  EXPECT_EQ(sums.alive, (std::vector<int>{2, 3, 3}));
  int left = 0;
  for (const std::weak_ptr<int>& value : sums.made) left += !value.expired();
  EXPECT_EQ(left, 1);  // the result
}

TEST(Walk, RunsWithTheInputsThatBeforeGives) {
  Sums sums;
  sums.replaced = true;
  EXPECT_EQ(*Fixture().walked(sums)[0], ((100) + 5 + 1) * 2 + 2);
}

TEST(Walk, NamesTheStepInErrors) {
  Sums sums;
  sums.failing = 1;
  EXPECT_EQ(error_of([&] { Fixture().walked(sums); }), "no such sum\n    in step 1");
  EXPECT_EQ(sums.log, "b0r0a0=5 b1r1");
}

// a = relu(x), b = a + x, and c = sqrt(x), which is not used. The heads are b and a.
Graph small_graph() {
  Graph graph;
  const ValueId x = graph.add_leaf(NodeKind::kInput, {Shape{2}, DType::kFloat32}, "x");
  const ValueId a = graph.add_op("relu", {x}, {}, {"a", "train.py:3"});
  graph.add_op("sqrt", {x}, {}, "c");
  const ValueId b = graph.add_op("elemwise_add", {a, x});
  graph.outputs = {b, a};
  return graph;
}

TEST(GraphRoute, RunsOperatorsByPosition) {
  const Graph graph = small_graph();
  const GraphRoute steps(graph);
  EXPECT_EQ(steps.nodes, (std::vector<int32_t>{1, 2, 3}));
  Values values(steps.slots.size());
  values[steps.slots.of({0, 0})] = std::make_shared<int>(5);
  Sums sums;
  const Values results = walk<Value>(steps.route, std::move(values), sums);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(*results[0], 12);  // 5 + 5 + 2, the third step
  EXPECT_EQ(*results[1], 5);
}

TEST(Graph, FindsWhatValuesAreComputedFrom) {
  const Graph graph = small_graph();
  EXPECT_EQ(find_needed(graph, graph.outputs), (std::vector<uint8_t>{1, 1, 0, 1}));
  const ValueId only{1, 0};
  EXPECT_EQ(find_needed(graph, {&only, 1}), (std::vector<uint8_t>{1, 1, 0, 0}));
}

TEST(Graph, CopiesShareTheCallsOfNodes) {
  const Graph graph = small_graph(), copy = graph;
  EXPECT_EQ(copy.nodes[1].call, graph.nodes[1].call);
  EXPECT_EQ(graph.nodes[1].name().label(), "a (train.py:3)");
  EXPECT_EQ(graph.nodes[1].name().with("_again").label(), "a_again (train.py:3)");
  EXPECT_EQ(graph.nodes[3].name().label(), "elemwise_add3");
}

}  // namespace
}  // namespace mxlite::graph
