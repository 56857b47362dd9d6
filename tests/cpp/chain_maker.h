// Chains of pointwise operators for tests, the results of their operators one by one, and a list of
// all functions that a step may have.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cpp/ops/pointwise/chain_functions.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite::test {

class ChainMaker {
 public:
  ChainMaker(Shape shape, DType dtype) : shape_(shape), dtype_(dtype) {}

  int input(const Shape& shape, double low = -2, double high = 2) {
    chain.values.push_back({Shape{shape.size()}, dtype_});
    const bool whole = shape.size() == shape_.size() || shape.size() == 1;
    chain.broadcast.push_back(whole ? std::vector<PointwiseChain::IndexTerm>()
                                    : pointwise::broadcast_terms(shape, shape_));
    tensors_.push_back(random_tensor({shape, dtype_}, ++seed_, low, high));
    chain.num_inputs = chain.values.size();
    return static_cast<int>(chain.values.size()) - 1;
  }
  int input() { return input(shape_); }
  int op(const char* name, std::vector<int> inputs, const Attrs& attrs = {}) {
    PointwiseChain::Operation step{&ops().get(name), nullptr, std::move(inputs), {}};
    step.params = step.op->make_params_by_name(attrs);
    std::vector<Tensor> in;
    for (int v : step.inputs) in.push_back(tensor(v));
    const OpCall call(*step.op, step.params, in);
    tensors_.push_back(call.run(call.selected().name)[0]);
    const TensorSpec made = tensors_.back().spec;
    if (const auto row = pointwise::find_row_end(*step.op, step.params.get(), in[0].spec, made))
      chain.row_end = row;
    step.outputs = {static_cast<int>(chain.values.size())};
    chain.values.push_back({Shape{made.shape.size()}, made.dtype});
    chain.steps.push_back(std::move(step));
    return chain.steps.back().outputs[0];
  }

  // Returns a value of the chain as the operators compute it.
  const Tensor& tensor(int value) const { return tensors_[static_cast<size_t>(value)]; }

  // Calls launch(inputs, outputs) with the memory of all inputs and of new outputs.
  template <class Launch>
  std::vector<Tensor> run(Launch launch) const {
    std::vector<void*> in, out;
    std::vector<Tensor> result;
    for (size_t i = 0; i < chain.num_inputs; ++i) in.push_back(tensors_[i].data());
    for (int v : chain.outputs) result.emplace_back(tensor(v).spec);
    for (const Tensor& t : result) out.push_back(t.data());
    launch(in, out);
    return result;
  }
  // Compares outputs of the chain with those of its operators. Each output is a sum of `terms`
  // numbers.
  void expect_near(const std::vector<Tensor>& outputs, int64_t terms = 1) const {
    ASSERT_EQ(outputs.size(), chain.outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Tensor &got = outputs[k], &want = tensor(chain.outputs[k]);
      // Vectorized functions may differ in their last place, which a half rounds to the next
      // number.
      const DType dtype = want.spec.dtype;
      const double unit = dtype == DType::kFloat32   ? 2e-6 + 1e-7 * static_cast<double>(terms)
                          : dtype == DType::kFloat16 ? 2e-3
                                                     : 1.6e-2;
      ASSERT_EQ(got.spec.shape, want.spec.shape);
      for (int64_t i = 0; i < want.spec.shape.size(); ++i) {
        const double w = want.at(i), g = got.at(i);
        if (std::isnan(w) || std::isinf(w))
          ASSERT_TRUE(std::isnan(w) ? std::isnan(g) : g == w) << "output " << k << " at " << i;
        else
          ASSERT_NEAR(g, w, unit * std::max(1.0, std::fabs(w))) << "output " << k << " at " << i;
      }
    }
  }

  PointwiseChain chain;

 private:
  Shape shape_;
  DType dtype_;
  std::vector<Tensor> tensors_;
  uint32_t seed_ = 0;
};

// Calls check(name, maker) for chains of one step, for every function that a step may have.
// `generated` includes the functions that only generated kernels have.
template <class Check>
void for_each_chain_function(const Shape& shape, DType dtype, bool generated, Check check) {
  const auto apply = [&](const char* name, int operands, const Attrs& attrs = {}, double low = -2,
                         double high = 2) {
    ChainMaker maker(shape, dtype);
    std::vector<int> inputs;
    for (int i = 0; i < operands; ++i) inputs.push_back(maker.input(shape, low, high));
    maker.chain.outputs = {maker.op(name, inputs, attrs)};
    check(name, std::move(maker));
  };
  using Names = std::initializer_list<const char*>;
  for (const Names& names :
       {Names{"negative", "abs", "sign", "square", "relu", "logical_not", "round", "rint", "ceil"},
        Names{"floor", "trunc", "fix", "_contrib_isnan", "_contrib_isinf", "_contrib_isfinite"},
        Names{"sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "tanh", "reciprocal", "sigmoid"},
        Names{"softsign", "erf", "_copy", "BlockGrad", "make_loss"}})
    for (const char* name : names) apply(name, 1);
  apply("clip", 1, {{"a_min", -0.5}, {"a_max", 0.7}});
  apply("clip", 1, {{"a_min", 0.0}, {"a_max", 0.0}});
  apply("smooth_l1", 1, {{"scalar", 1.5}});
  apply("hard_sigmoid", 1, {{"alpha", 0.3}, {"beta", 0.4}});
  for (const char* name :
       {"_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar",
        "_rdiv_scalar", "_mod_scalar", "_rmod_scalar", "_rpower_scalar", "_maximum_scalar",
        "_minimum_scalar", "_greater_scalar", "_lesser_equal_scalar", "_logical_and_scalar"})
    apply(name, 1, {{"scalar", 0.75}});
  for (const double power : {2.0, 3.0}) apply("_power_scalar", 1, {{"scalar", power}});
  for (const char* type : {"relu", "sigmoid", "tanh", "softrelu", "softsign"}) {
    const Attrs attrs{{"act_type", std::string(type)}};
    apply("Activation", 1, attrs);
    apply("_activation_backward", 2, attrs);
  }
  for (const char* name : {"add", "sub", "mul", "div", "mod", "power", "maximum", "minimum",
                           "equal", "not_equal", "greater", "greater_equal", "lesser"})
    apply(str("broadcast_", name).c_str(), 2);
  for (const char* name :
       {"broadcast_lesser_equal", "broadcast_logical_and", "broadcast_logical_or",
        "broadcast_logical_xor", "elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div",
        "_relu_backward", "_sigmoid_backward", "_tanh_backward"})
    apply(name, 2);
  if (!generated) return;
  for (const char* name : {"cbrt", "rcbrt", "log10", "log2", "sin", "cos", "tan", "arctan", "sinh",
                           "cosh", "arcsinh", "degrees", "radians"})
    apply(name, 1);
  for (const char* name : {"arcsin", "arccos", "arctanh", "erfinv"}) apply(name, 1, {}, -0.9, 0.9);
  for (const char* name : {"gamma", "gammaln", "_digamma", "_trigamma"}) apply(name, 1, {}, 0.5, 5);
  apply("arccosh", 1, {}, 1, 4);
  apply("broadcast_hypot", 2);
}

// Swish and its gradient: values used again, an operand that is one element, several outputs.
inline ChainMaker swish(const Shape& shape, DType dtype) {
  ChainMaker c(shape, dtype);
  const int x = c.input(), one = c.input(Shape{1}), grad = c.input();
  const int gate = c.op("sigmoid", {x});
  const int scaled = c.op("broadcast_mul", {x, one});
  const int y = c.op("elemwise_mul", {gate, scaled});
  const int rest = c.op("_rminus_scalar", {gate}, {{"scalar", 1.0}});
  const int slope = c.op("elemwise_mul", {rest, y});
  const int sum = c.op("elemwise_add", {slope, gate});
  c.chain.outputs = {y, c.op("elemwise_mul", {grad, sum})};
  return c;
}

}  // namespace mxlite::test
