// Optimizers of servers give the numbers of the operators, also by rows and in mixed precision.
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
  const char* name;
  const char* json;
  const char* op;
  Attrs attrs;  // attributes of the first update
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
  OpCall call(c.op, c.attrs, inputs);
  Tensor out(spec);
  std::vector<TensorRef> refs;
  for (const Tensor& t : call.inputs) refs.push_back(t.ref());
  std::vector<TensorSpec> specs;
  for (const Tensor& t : call.inputs) specs.push_back(t.spec);
  const Specs out_specs = call.op.infer(call.params.get(), specs);
  KernelContext context;
  const TensorRef out_ref = out.ref();
  call.op.select_kernel(DeviceType::kCPU, call.params.get(), specs, out_specs)
      .run(context, call.params.get(), refs, {&out_ref, 1});

  const auto optimizer = Optimizer::make(c.name, c.json);
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

INSTANTIATE_TEST_SUITE_P(
    Operators, Updates,
    testing::Values(Case{"sgd",
                         R"({"operator": "sgd_update", "learning_rate": 0.1, "wd": 0.01,
                 "rescale_grad": 0.25})",
                         "sgd_update",
                         {{"lr", 0.1}, {"wd", 0.01}, {"rescale_grad", 0.25}},
                         0},
                    Case{"sgd",
                         R"({"operator": "sgd_mom_update", "learning_rate": 0.1,
                 "params": {"momentum": 0.9, "clip_gradient": 0.5}})",
                         "sgd_mom_update",
                         {{"lr", 0.1}, {"momentum", 0.9}, {"clip_gradient", 0.5}},
                         1},
                    Case{"nag",
                         R"({"operator": "nag_mom_update", "learning_rate": 0.1, "wd": 0.1,
                 "wd_mult": {"w": 0.5}, "params": {"momentum": 0.9}})",
                         "nag_mom_update",
                         {{"lr", 0.1}, {"momentum", 0.9}, {"wd", 0.05}},
                         1},
                    Case{"adam",
                         R"({"operator": "adam_update", "learning_rate": 0.1})",
                         "adam_update",
                         {{"lr", kAdamRate}},
                         2},
                    Case{"adamw",
                         R"({"operator": "_adamw_update", "learning_rate": 0.1, "wd": 0.5,
                 "rescale_grad": 0.25, "decoupled": true,
                 "params": {"eta": 1, "epsilon": 1e-6}})",
                         "_adamw_update",
                         {{"lr", kAdamRate}, {"wd", 0.05}, {"eta", 1.0}, {"epsilon", 1e-6}},
                         2},
                    Case{
                        "adamw",
                        R"({"operator": "_adamw_update", "learning_rate": 0.1, "rescale_grad": 0.25,
                 "params": {"eta": 1, "t": 0}})",
                        "_adamw_update",
                        {{"lr", 0.1}, {"eta", 1.0}},
                        2},
                    Case{"adamax",
                         R"({"operator": "_adamax_update", "learning_rate": 0.1})",
                         "_adamax_update",
                         {{"lr", 0.1 / (1 - 0.9)}},
                         2},
                    Case{"ftml",
                         R"({"operator": "ftml_update", "learning_rate": 0.1})",
                         "ftml_update",
                         {{"lr", 0.1}, {"t", int64_t{1}}},
                         3},
                    Case{"adadelta",
                         R"({"operator": "_adadelta_update", "learning_rate": 0.1, "wd": 0.2})",
                         "_adadelta_update",
                         {{"wd", 0.2}},
                         2},
                    Case{"rmsprop",
                         R"({"operator": "rmspropalex_update", "learning_rate": 0.1,
                 "params": {"gamma1": 0.9}})",
                         "rmspropalex_update",
                         {{"lr", 0.1}, {"gamma1", 0.9}},
                         3}),
    [](const auto& info) { return std::string(info.param.op) + std::to_string(info.index); });

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

TEST(MixedUpdates, KeepAnExactWeight) {
  set_update_operators({&python::run_update_of_server, &python::find_update_of_server});
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    const TensorSpec spec{Shape{100}, half};
    Weight weight;
    weight.dtype = half;
    weight.count = 100;
    Tensor start(spec), grad(spec);
    for (int64_t i = 0; i < 100; ++i) {
      start.set(i, 1);
      grad.set(i, 1);
    }
    weight.value = copy_of(start);
    Gradient gradient;
    gradient.dtype = half;
    gradient.data = static_cast<const std::byte*>(grad.data());
    const auto optimizer =
        Optimizer::make("sgd", R"({"operator": "sgd_update", "learning_rate": 0.0001,
                                   "multi_precision": true})");
    for (int i = 0; i < 1000; ++i) optimizer->update("w", weight, gradient);
    // In the half type alone, no such step would change a 1.
    const auto* exact = reinterpret_cast<const float*>(weight.master.data());
    EXPECT_NEAR(exact[50], 0.9, 1e-4);
    EXPECT_EQ(weight.updates, 1000u);
  }
}

}  // namespace
}  // namespace mxlite::store
