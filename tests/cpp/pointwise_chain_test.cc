// Programs of pointwise operators, which CUDA interprets in one kernel, against the operators' own
// CPU kernels one after the other.
#include "tests/cpp/chain_on_host.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite::test {
namespace {

constexpr int64_t kCount = 1003;  // not a multiple of the width

class ChainMaker {
 public:
  explicit ChainMaker(DType dtype) : dtype_(dtype) {}

  int input(int64_t size = kCount, double low = -2, double high = 2) {
    return add_input(random_tensor({Shape{size}, dtype_}, ++seed_, low, high));
  }
  int op(const char* name, std::vector<int> inputs, const Attrs& attrs = {}) {
    PointwiseChain::Step step{&ops().get(name), nullptr, std::move(inputs), {}};
    step.params = step.op->make_params_by_name(attrs);
    step.outputs = {static_cast<int>(chain.values.size())};
    chain.values.push_back({Shape{kCount}, dtype_});
    chain.steps.push_back(std::move(step));
    return chain.steps.back().outputs[0];
  }

  // Outputs of the operators one by one.
  std::vector<Tensor> step_by_step() const {
    std::vector<Tensor> values = inputs_;
    values.resize(chain.values.size());
    for (const PointwiseChain::Step& step : chain.steps) {
      std::vector<Tensor> in;
      for (int v : step.inputs) in.push_back(spread(values[static_cast<size_t>(v)]));
      const OpCall call(*step.op, step.params, in);
      const auto from = call.input_specs(), to = call.output_specs();
      const Kernel& kernel = step.op->select_kernel(DeviceType::kCPU, step.params.get(), from, to);
      values[static_cast<size_t>(step.outputs[0])] = call.run(kernel.name)[0];
    }
    std::vector<Tensor> result;
    for (int v : chain.outputs) result.push_back(values[static_cast<size_t>(v)]);
    return result;
  }
  std::vector<Tensor> at_once(const pointwise::ChainProgram& program) const {
    std::vector<void*> in, out;
    std::vector<Tensor> result;
    for (const Tensor& t : inputs_) in.push_back(t.data());
    for (int v : chain.outputs) result.emplace_back(chain.values[static_cast<size_t>(v)]);
    for (const Tensor& t : result) out.push_back(t.data());
    run_chain_on_host(program, in, out);
    return result;
  }

  PointwiseChain chain;

 private:
  int add_input(Tensor t) {
    chain.values.push_back(t.spec);
    inputs_.push_back(std::move(t));
    chain.num_inputs = chain.values.size();
    return static_cast<int>(chain.values.size()) - 1;
  }
  static Tensor spread(const Tensor& t) {
    if (t.spec.shape.size() == kCount) return t;
    Tensor all({Shape{kCount}, t.spec.dtype});
    for (int64_t i = 0; i < kCount; ++i) all.set(i, t.at(0));
    return all;
  }

  DType dtype_;
  std::vector<Tensor> inputs_;
  uint32_t seed_ = 0;
};

void expect_same(const ChainMaker& maker, int num_kept) {
  const auto program = pointwise::compile_chain(maker.chain);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->num_kept, num_kept);
  const auto want = maker.step_by_step(), got = maker.at_once(*program);
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    // Vectorized functions may differ in their last place, which a half rounds to the next number.
    const DType dtype = want[k].spec.dtype;
    const double unit = dtype == DType::kFloat32 ? 2e-6 : dtype == DType::kFloat16 ? 2e-3 : 1.6e-2;
    for (int64_t i = 0; i < kCount; ++i) {
      const double w = want[k].at(i), g = got[k].at(i);
      if (std::isnan(w) || std::isinf(w))
        ASSERT_TRUE(std::isnan(w) ? std::isnan(g) : g == w) << "output " << k << " at " << i;
      else
        ASSERT_NEAR(g, w, unit * std::max(1.0, std::fabs(w))) << "output " << k << " at " << i;
    }
  }
}

class PointwiseChainTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, PointwiseChainTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(PointwiseChainTest, EveryFunctionIsItsOperator) {
  const Attrs scalar{{"scalar", 0.75}};
  const std::vector<std::pair<const char*, Attrs>> unary = {
      {"negative", {}},
      {"abs", {}},
      {"sign", {}},
      {"square", {}},
      {"relu", {}},
      {"logical_not", {}},
      {"round", {}},
      {"rint", {}},
      {"ceil", {}},
      {"floor", {}},
      {"trunc", {}},
      {"fix", {}},
      {"_contrib_isnan", {}},
      {"_contrib_isinf", {}},
      {"_contrib_isfinite", {}},
      {"sqrt", {}},
      {"rsqrt", {}},
      {"exp", {}},
      {"expm1", {}},
      {"log", {}},
      {"log1p", {}},
      {"tanh", {}},
      {"reciprocal", {}},
      {"sigmoid", {}},
      {"softsign", {}},
      {"erf", {}},
      {"_copy", {}},
      {"BlockGrad", {}},
      {"make_loss", {}},
      {"clip", {{"a_min", -0.5}, {"a_max", 0.7}}},
      {"smooth_l1", {{"scalar", 1.5}}},
      {"hard_sigmoid", {{"alpha", 0.3}, {"beta", 0.4}}},
      {"_plus_scalar", scalar},
      {"_minus_scalar", scalar},
      {"_rminus_scalar", scalar},
      {"_mul_scalar", scalar},
      {"_div_scalar", scalar},
      {"_rdiv_scalar", scalar},
      {"_mod_scalar", scalar},
      {"_rmod_scalar", scalar},
      {"_power_scalar", {{"scalar", 2.0}}},
      {"_power_scalar", {{"scalar", 3.0}}},
      {"_rpower_scalar", scalar},
      {"_maximum_scalar", scalar},
      {"_minimum_scalar", scalar},
      {"_greater_scalar", scalar},
      {"_lesser_equal_scalar", scalar},
      {"_logical_and_scalar", scalar},
      {"Activation", {{"act_type", std::string("relu")}}},
      {"Activation", {{"act_type", std::string("sigmoid")}}},
      {"Activation", {{"act_type", std::string("tanh")}}},
      {"Activation", {{"act_type", std::string("softrelu")}}},
      {"Activation", {{"act_type", std::string("softsign")}}}};
  for (const auto& [name, attrs] : unary) {
    SCOPED_TRACE(name);
    ChainMaker maker(GetParam());
    maker.chain.outputs = {maker.op(name, {maker.input()}, attrs)};
    expect_same(maker, 0);
  }
  std::vector<std::pair<const char*, Attrs>> binary = {
      {"broadcast_add", {}},        {"broadcast_sub", {}},          {"broadcast_mul", {}},
      {"broadcast_div", {}},        {"broadcast_mod", {}},          {"broadcast_power", {}},
      {"broadcast_maximum", {}},    {"broadcast_minimum", {}},      {"broadcast_equal", {}},
      {"broadcast_not_equal", {}},  {"broadcast_greater", {}},      {"broadcast_greater_equal", {}},
      {"broadcast_lesser", {}},     {"broadcast_lesser_equal", {}}, {"broadcast_logical_and", {}},
      {"broadcast_logical_or", {}}, {"broadcast_logical_xor", {}},  {"elemwise_add", {}},
      {"elemwise_sub", {}},         {"elemwise_mul", {}},           {"elemwise_div", {}},
      {"_relu_backward", {}},       {"_sigmoid_backward", {}},      {"_tanh_backward", {}}};
  for (const char* type : {"relu", "sigmoid", "tanh", "softrelu", "softsign"})
    binary.push_back({"_activation_backward", {{"act_type", std::string(type)}}});
  for (const auto& [name, attrs] : binary) {
    SCOPED_TRACE(name);
    ChainMaker maker(GetParam());
    const int a = maker.input(), b = maker.input();
    maker.chain.outputs = {maker.op(name, {a, b}, attrs)};
    expect_same(maker, 0);
  }
}

// Swish and its gradient: values used again later, an operand that is one element, several outputs.
TEST_P(PointwiseChainTest, ValuesAreKeptForLaterSteps) {
  ChainMaker maker(GetParam());
  const int x = maker.input(), one = maker.input(1), grad = maker.input();
  const int gate = maker.op("sigmoid", {x});
  const int scaled = maker.op("broadcast_mul", {x, one});
  const int y = maker.op("elemwise_mul", {gate, scaled});
  const int rest = maker.op("_rminus_scalar", {gate}, {{"scalar", 1.0}});
  const int slope = maker.op("elemwise_mul", {rest, y});
  const int sum = maker.op("elemwise_add", {slope, gate});
  const int result = maker.op("elemwise_mul", {grad, sum});
  maker.chain.outputs = {y, result};
  expect_same(maker, 2);
}

TEST_P(PointwiseChainTest, AValueMayBeBothOperands) {
  ChainMaker maker(GetParam());
  const int a = maker.op("_plus_scalar", {maker.input()}, {{"scalar", 0.5}});
  const int b = maker.op("elemwise_mul", {a, a});
  maker.chain.outputs = {maker.op("elemwise_sub", {b, a}), a};
  expect_same(maker, 1);
}

TEST(PointwiseChain, WhatHasNoFunctionIsRefused) {
  ChainMaker gamma(DType::kFloat32);
  gamma.chain.outputs = {gamma.op("gammaln", {gamma.op("exp", {gamma.input()})})};
  EXPECT_FALSE(pointwise::compile_chain(gamma.chain));
  ChainMaker wide(DType::kFloat64);
  wide.chain.outputs = {wide.op("exp", {wide.input()})};
  EXPECT_FALSE(pointwise::compile_chain(wide.chain));
}

// More values alive than there are places: refused, not wrong.
TEST(PointwiseChain, TooManyKeptValuesAreRefused) {
  for (const int kept : {6, 7}) {
    ChainMaker maker(DType::kFloat32);
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
