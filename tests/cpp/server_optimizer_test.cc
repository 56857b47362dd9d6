// Tests that optimizers of servers give the results of the operators, also for rows and in mixed
// precision.
#include <gtest/gtest.h>

#include <cstring>

#include "cpp/python/update_runner.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite::store {
namespace {

using test::Attrs;
using test::OpCall;
using test::Tensor;

constexpr int64_t kCount = 1003;

struct Case {
  const char* op;
  const char* options;  // JSON fields beside the operator
  Attrs attrs;          // attributes of the first update
  int states;
};

class Updates : public testing::TestWithParam<Case> {};

OwnBuffer copy_of(const Tensor& t) {
  const OwnBuffer b = OwnBuffer::allocate(t.spec.bytes());
  std::memcpy(b.data(), t.data(), b.bytes);
  return b;
}

TEST_P(Updates, AreThoseOfTheOperator) {
  set_update_operators({&python::run_update_of_server, &python::find_update_of_server});
  const Case& c = GetParam();
  const TensorSpec spec{Shape{kCount}, DType::kFloat32};
  std::vector<Tensor> inputs = {test::random_tensor(spec, 1), test::random_tensor(spec, 2)};
  Weight weight;
  weight.count = kCount;
  weight.value = copy_of(inputs[0]);
  for (int i = 0; i < c.states; ++i) {
    Tensor state(spec);
    std::memset(state.data(), 0, spec.bytes());
    inputs.push_back(state);
  }
  const bool adamw = std::string_view(c.op) == "_adamw_update";
  if (adamw) {
    Tensor rescale({Shape{1}, DType::kFloat64});
    rescale.set(0, 0.25);
    inputs.push_back(rescale);
  }
  const Tensor grad = inputs[1];
  const OpCall call(c.op, c.attrs, inputs);
  const Tensor out = call.run(call.selected().name)[0];

  const std::string json = str("{\"operator\": \"", c.op, "\", ", c.options, "}");
  const auto optimizer = Optimizer::make(c.op, json);
  Gradient gradient;
  gradient.data = static_cast<const std::byte*>(grad.data());
  optimizer->update("w", weight, gradient);
  EXPECT_EQ(std::memcmp(weight.value.data(), out.data(), spec.bytes()), 0);
  ASSERT_EQ(weight.states.size(), static_cast<size_t>(c.states));
  for (int i = 0; i < c.states; ++i)
    EXPECT_EQ(std::memcmp(weight.states[static_cast<size_t>(i)].data(),
                          call.inputs[static_cast<size_t>(i) + 2].data(), spec.bytes()),
              0);
}

const double kAdamRate = 0.1 * std::sqrt(1 - 0.999) / (1 - 0.9);

const Case kCases[] = {
    {"sgd_update",
     R"("learning_rate": 0.1, "wd": 0.01, "rescale_grad": 0.25)",
     {{"lr", 0.1}, {"wd", 0.01}, {"rescale_grad", 0.25}},
     0},
    {"sgd_mom_update",
     R"("learning_rate": 0.1, "params": {"momentum": 0.9, "clip_gradient": 0.5})",
     {{"lr", 0.1}, {"momentum", 0.9}, {"clip_gradient", 0.5}},
     1},
    {"nag_mom_update",
     R"("learning_rate": 0.1, "wd": 0.1, "wd_mult": {"w": 0.5}, "params": {"momentum": 0.9})",
     {{"lr", 0.1}, {"momentum", 0.9}, {"wd", 0.05}},
     1},
    {"adam_update", R"("learning_rate": 0.1)", {{"lr", kAdamRate}}, 2},
    {"_adamw_update",
     R"("learning_rate": 0.1, "wd": 0.5, "rescale_grad": 0.25, "decoupled": true,
        "params": {"eta": 1, "epsilon": 1e-6})",
     {{"lr", kAdamRate}, {"wd", 0.05}, {"eta", 1.0}, {"epsilon", 1e-6}},
     2},
    {"_adamw_update",
     R"("learning_rate": 0.1, "rescale_grad": 0.25, "params": {"eta": 1, "t": 0})",
     {{"lr", 0.1}, {"eta", 1.0}},
     2},
    {"_adamax_update", R"("learning_rate": 0.1)", {{"lr", 0.1 / (1 - 0.9)}}, 2},
    {"ftml_update", R"("learning_rate": 0.1)", {{"lr", 0.1}, {"t", int64_t{1}}}, 3},
    {"_adadelta_update", R"("learning_rate": 0.1, "wd": 0.2)", {{"wd", 0.2}}, 2},
    {"rmspropalex_update",
     R"("learning_rate": 0.1, "params": {"gamma1": 0.9})",
     {{"lr", 0.1}, {"gamma1", 0.9}},
     3},
};
INSTANTIATE_TEST_SUITE_P(Operators, Updates, testing::ValuesIn(kCases), [](const auto& info) {
  return std::string(info.param.op) + std::to_string(info.index);
});

TEST(UpdateOperators, OthersAreRefused) {
  for (const char* name : {"adan_update", "FullyConnected", "mp_sgd_update", "_multi_adam_update",
                           "_rows_sgd_update", "lamb_update_phase1", "lamb_update_phase2"})
    EXPECT_THROW(optimizer::form_of_update(name), Error) << name;
  EXPECT_EQ(optimizer::form_of_update("sgd_update").states, 0);
  EXPECT_TRUE(optimizer::form_of_update("_adamw_update").scale_is_input);
}

TEST(RowUpdates, ChangeOnlyTheRowsGiven) {
  set_update_operators({&python::run_update_of_server, &python::find_update_of_server});
  const TensorSpec spec{Shape{5, 2}, DType::kFloat32};
  Weight weight;
  weight.count = 10;
  weight.row_size = 2;
  const Tensor start = test::random_tensor(spec, 3);
  weight.value = copy_of(start);
  const float rows[4] = {1, 2, 3, 4};
  Gradient gradient;
  gradient.data = reinterpret_cast<const std::byte*>(rows);
  gradient.by_rows = true;
  gradient.rows = {1, 4};
  Optimizer::make("adam", R"({"operator": "adam_update", "learning_rate": 0.1, "wd": 0.1,
                              "rows": true})")
      ->update("w", weight, gradient);
  const auto* now = reinterpret_cast<const float*>(weight.value.data());
  for (int64_t i = 0; i < 10; ++i) {
    const bool given = i / 2 == 1 || i / 2 == 4;
    EXPECT_EQ(now[i] != static_cast<float>(start.at(i)), given) << i;
  }
}

}  // namespace
}  // namespace mxlite::store
