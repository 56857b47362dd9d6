// Compares programs of pointwise operators, which CUDA interprets in one kernel, with the
// operators' own CPU kernels one after the other.
#include "tests/cpp/chain_maker.h"
#include "tests/cpp/chain_on_host.h"

namespace mxlite::test {
namespace {

const Shape kShape{1003};  // not a multiple of the width

void expect_same(const ChainMaker& maker, int num_kept) {
  const auto program = pointwise::compile_chain(maker.chain);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->num_kept, num_kept);
  maker.expect_near(
      maker.run([&](const auto& in, const auto& out) { run_chain_on_host(*program, in, out); }));
}

class PointwiseChainTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, PointwiseChainTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(PointwiseChainTest, EveryFunctionIsItsOperator) {
  for_each_chain_function(kShape, GetParam(), /*generated=*/false,
                          [](const std::string& name, const ChainMaker& maker) {
                            SCOPED_TRACE(name);
                            expect_same(maker, 0);
                          });
}

TEST_P(PointwiseChainTest, ValuesAreKeptForLaterSteps) {
  expect_same(swish(kShape, GetParam()), 2);
}

TEST_P(PointwiseChainTest, AValueMayBeBothOperands) {
  ChainMaker maker(kShape, GetParam());
  const int a = maker.op("_plus_scalar", {maker.input()}, {{"scalar", 0.5}});
  const int b = maker.op("elemwise_mul", {a, a});
  maker.chain.outputs = {maker.op("elemwise_sub", {b, a}), a};
  expect_same(maker, 1);
}

TEST(PointwiseChain, WhatHasNoFunctionIsRefused) {
  ChainMaker gamma(kShape, DType::kFloat32);
  gamma.chain.outputs = {gamma.op("gammaln", {gamma.op("exp", {gamma.input()})})};
  EXPECT_FALSE(pointwise::compile_chain(gamma.chain));
  ChainMaker wide(kShape, DType::kFloat64);
  wide.chain.outputs = {wide.op("exp", {wide.input()})};
  EXPECT_FALSE(pointwise::compile_chain(wide.chain));
}

// A program that keeps more values than there are places is refused.
TEST(PointwiseChain, TooManyKeptValuesAreRefused) {
  for (const int kept : {6, 7}) {
    ChainMaker maker(kShape, DType::kFloat32);
    const int x = maker.input();
    std::vector<int> values;
    for (int i = 0; i < kept; ++i)
      values.push_back(maker.op("_plus_scalar", {x}, {{"scalar", i + 1.0}}));
    int sum = maker.op("exp", {x});
    for (int v : values) sum = maker.op("elemwise_add", {v, sum});
    maker.chain.outputs = {sum};
    if (kept == 6)
      expect_same(maker, 6);
    else
      EXPECT_FALSE(pointwise::compile_chain(maker.chain));
  }
}

}  // namespace
}  // namespace mxlite::test
