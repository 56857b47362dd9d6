// Compares the bfloat16 kernels of dot-product attention with the float32 kernel on the same
// arrays. The op table compares the kernel that this processor takes with NumPy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cpp/ops/cpu/nn/attention_blocks.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

struct Case {
  int64_t batch, heads, key_heads, q_length, k_length, d, dv;
  bool causal = false, mask = false, transposed = false;
  float dropout = 0;
};

using Run = void (*)(const AttentionCall&, const AttentionPlan&, float*);
struct Kernels {
  AttentionPlan (*plan_forward)(const AttentionCall&);
  AttentionPlan (*plan_backward)(const AttentionCall&);
  Run forward, backward;
};

struct Results {
  std::vector<bfloat16> output, query_grad, key_grad, value_grad;
  std::vector<float> log_sum;
};

// Returns numbers that are uniformly distributed between -size and size.
std::vector<bfloat16> values(int64_t count, uint64_t seed, float size) {
  std::vector<bfloat16> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = size * (2 * to_uniform(philox(seed, i)[0]) - 1);
  return result;
}

// An array (batch, heads, rows, columns) in this order, or with rows and columns exchanged.
AttentionArray array(std::vector<bfloat16>& data, int64_t heads, int64_t rows, int64_t columns,
                     bool transposed = false) {
  return {data.data(),    DType::kBFloat16,         heads * rows * columns,
          rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
}

void run(const AttentionCall& c, const AttentionPlan& plan, Run kernel) {
  const size_t bytes = (plan.bytes(c) + 63) / 64 * 64;
  const std::unique_ptr<float, decltype(&std::free)> scratch(
      static_cast<float*>(std::aligned_alloc(64, bytes)), std::free);
  std::fill_n(scratch.get(), bytes / sizeof(float), std::nanf(""));  // kernels must not read it
  kernel(c, plan, scratch.get());
}

Results compute(const Case& s, const Kernels& kernels) {
  const int64_t heads = s.batch * s.heads, key_heads = s.batch * s.key_heads;
  auto query = values(heads * s.q_length * s.d, 1, 4);
  auto key = values(key_heads * s.k_length * s.d, 2, 1);
  auto value = values(key_heads * s.k_length * s.dv, 3, 1);
  auto grad = values(heads * s.q_length * s.dv, 4, 1);
  auto mask = values(s.q_length * s.k_length, 5, 2);
  for (size_t i = 0; i < mask.size(); i += 7) mask[i] = -INFINITY;
  Results r;
  r.output.resize(grad.size());
  r.query_grad.resize(query.size());
  r.key_grad.resize(key.size());
  r.value_grad.resize(value.size());
  r.log_sum.resize(static_cast<size_t>(heads * s.q_length));

  AttentionCall c{.batch = s.batch,
                  .heads = s.heads,
                  .key_heads = s.key_heads,
                  .q_length = s.q_length,
                  .k_length = s.k_length,
                  .d = s.d,
                  .dv = s.dv,
                  .scale = 0.3,
                  .causal = s.causal,
                  .dropout = s.dropout,
                  .random = {7, 11}};
  for (int64_t b = 0; b < s.batch; ++b)  // the second sample is empty
    c.lengths.push_back(b == 1 ? 0 : b == 2 ? s.k_length / 2 + 1 : s.k_length);
  c.query = array(query, s.heads, s.q_length, s.d, s.transposed);
  c.key = array(key, s.key_heads, s.k_length, s.d, s.transposed);
  c.value = array(value, s.key_heads, s.k_length, s.dv, s.transposed);
  if (s.mask) c.mask = {mask.data(), DType::kBFloat16, 0, 0, s.k_length, 1};
  c.output = array(r.output, s.heads, s.q_length, s.dv);
  c.log_sum = r.log_sum.data();
  run(c, kernels.plan_forward(c), kernels.forward);
  c.output_grad = array(grad, s.heads, s.q_length, s.dv, s.transposed);
  c.query_grad = array(r.query_grad, s.heads, s.q_length, s.d);
  c.key_grad = array(r.key_grad, s.key_heads, s.k_length, s.d);
  c.value_grad = array(r.value_grad, s.key_heads, s.k_length, s.dv);
  run(c, kernels.plan_backward(c), kernels.backward);
  return r;
}

// Both kernels round results once, to 8 bits. The bfloat16 kernels also round weights and score
// gradients.
void expect_near(const std::vector<bfloat16>& got, const std::vector<bfloat16>& want,
                 const char* name) {
  float largest = 0;
  for (const bfloat16 x : want) largest = std::max(largest, std::abs(static_cast<float>(x)));
  ASSERT_GT(largest, 0);
  for (size_t i = 0; i < want.size(); ++i) {
    const float g = got[i], w = want[i];
    ASSERT_NEAR(g, w, largest / 128) << name << " " << i;
  }
}

class BFloat16Attention : public testing::TestWithParam<Case> {};

TEST_P(BFloat16Attention, EqualsFloat32) {
  if (!has_amx_bf16()) GTEST_SKIP() << "needs AMX";
  const Results want =
      compute(GetParam(), {plan_attention_forward<float>, plan_attention_backward<float>,
                           avx2::attention_forward, avx2::attention_backward});
  const Results got =
      compute(GetParam(), {plan_attention_forward<bfloat16>, plan_attention_backward<bfloat16>,
                           amx::attention_forward, amx::attention_backward});
  expect_near(got.output, want.output, "output");
  expect_near(got.query_grad, want.query_grad, "query_grad");
  expect_near(got.key_grad, want.key_grad, "key_grad");
  expect_near(got.value_grad, want.value_grad, "value_grad");
  for (size_t i = 0; i < want.log_sum.size(); ++i)
    if (std::isinf(want.log_sum[i]))
      ASSERT_EQ(got.log_sum[i], want.log_sum[i]) << i;
    else
      ASSERT_NEAR(got.log_sum[i], want.log_sum[i], 1e-4) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BFloat16Attention,
    testing::Values(Case{1, 2, 2, 128, 128, 64, 64}, Case{3, 4, 2, 67, 300, 40, 24},
                    Case{1, 1, 1, 1, 3, 1, 1}, Case{1, 3, 1, 5, 1000, 8, 130},
                    Case{2, 2, 1, 200, 513, 16, 100, true},
                    Case{1, 2, 2, 70, 50, 32, 32, true},  // the first rows attend to nothing
                    Case{3, 2, 2, 33, 290, 48, 16, false, true},
                    Case{2, 4, 2, 40, 270, 33, 65, true, true, true},
                    Case{1, 2, 2, 130, 300, 64, 64, true, false, false, 0.3f},
                    Case{3, 2, 1, 31, 100, 24, 40, false, true, true, 0.5f}),
    [](const auto& info) {
      const Case& c = info.param;
      std::string name = std::to_string(c.q_length) + "x" + std::to_string(c.k_length);
      if (c.causal) name += "Causal";
      if (c.mask) name += "Mask";
      if (c.transposed) name += "Transposed";
      if (c.dropout > 0) name += "Dropout";
      return name;
    });

}  // namespace
}  // namespace mxlite::cpu
