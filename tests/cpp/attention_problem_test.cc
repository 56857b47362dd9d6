// Tests which attention calls cuDNN runs, and which calls are different problems.
#include "cpp/ops/nn/attention_problem.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>
#include <string>

#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

struct Call {
  AttentionParams params;
  DType dtype = DType::kBFloat16;
  std::array<int64_t, 4> query{2, 4, 128, 64}, key{2, 4, 128, 64}, value{2, 4, 128, 64};
  std::optional<Shape> mask;
  float dropout = 0;
  bool backward = false;

  AttentionProblem problem() const {
    AttentionParams p = params;
    p.use_mask = mask.has_value();
    return describe_attention(p, backward, dropout, dtype, Shape(query), Shape(key), Shape(value),
                              mask ? &*mask : nullptr);
  }
  std::string reason() const {
    const char* const text = why_not_cudnn(problem());
    return text ? text : "";
  }
};

TEST(AttentionProblemTest, CudnnTakesHalvesWithAllOptions) {
  EXPECT_EQ(Call().reason(), "");
  EXPECT_EQ(Call{.dtype = DType::kFloat16}.reason(), "");
  EXPECT_EQ((Call{.params = {.causal = true, .use_length = true}, .dropout = 0.1f}.reason()), "");
  EXPECT_EQ((Call{.params = {.causal = true}, .query = {2, 4, 64, 64}}.reason()), "");
  EXPECT_EQ((Call{.mask = Shape{2, 1, 1, 128}}.reason()), "");
  EXPECT_EQ((Call{.params = {.causal = true}, .mask = Shape{128, 128}}.reason()), "");
  EXPECT_EQ((Call{.query = {2, 4, 128, 256}, .key = {2, 2, 128, 256}}.reason()), "");
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const Shape& mask : {Shape{2, 1, 1, 128}, Shape{128, 128}})
      EXPECT_EQ((Call{.dtype = dtype, .mask = mask, .dropout = 0.1f}.reason()), "");
}

TEST(AttentionProblemTest, TheReasonNamesWhatCudnnDoesNotTake) {
  const auto expect = [](const Call& call, const char* part) { EXPECT_HAS(call.reason(), part); };
  expect({.dtype = DType::kFloat32}, "dtype");
  expect({.query = {2, 4, 128, 60}, .key = {2, 4, 128, 60}}, "multiple of 8");
  expect({.value = {2, 4, 128, 264}}, "at most 256");
  expect({.query = {2, 4, 1, 64}, .key = {2, 4, 1, 64}, .value = {2, 4, 1, 64}}, "one query");
  expect({.dropout = 1}, "everything");
  expect({.params = {.causal = true}, .key = {2, 4, 64, 64}, .value = {2, 4, 64, 64}},
         "more queries");
  expect({.params = {.causal = true, .use_length = true}, .query = {2, 4, 64, 64}},
         "together with length");
  expect({.params = {.causal = true}, .query = {2, 4, 64, 64}, .dropout = 0.1f}, "dropout");
  expect({.mask = Shape{128, 1}}, "all keys");
  expect({.mask = Shape{4, 128, 128}, .dropout = 0.1f}, "differs between heads");
}

// One query attends to all keys, so that decoding is not taken for unequal lengths.
TEST(AttentionProblemTest, OneQueryIsNotCausal) {
  const Call call{.params = {.causal = true, .use_length = true}, .query = {2, 4, 1, 64}};
  EXPECT_FALSE(call.problem().causal);
  EXPECT_EQ(call.reason(), "");
}

TEST(AttentionProblemTest, WhateverChangesAPlanChangesTheKey) {
  AttentionProblem strided = Call().problem();
  strided.key[2] *= 3;
  AttentionProblem deterministic = Call().problem();
  deterministic.deterministic = true;
  const AttentionProblem problems[] = {
      Call().problem(),
      Call{.params = {.causal = true}}.problem(),
      Call{.params = {.scale = 0.5}}.problem(),
      Call{.params = {.use_length = true}}.problem(),
      Call{.dtype = DType::kFloat16}.problem(),
      Call{.query = {2, 4, 64, 64}}.problem(),
      Call{.key = {2, 2, 128, 64}, .value = {2, 2, 128, 64}}.problem(),
      Call{.value = {2, 4, 128, 32}}.problem(),
      Call{.mask = Shape{2, 1, 1, 128}}.problem(),
      Call{.mask = Shape{2, 4, 128, 128}}.problem(),
      Call{.dropout = 0.1f}.problem(),
      Call{.dropout = 0.2f}.problem(),
      Call{.backward = true}.problem(),
      strided,
      deterministic,
  };
  std::set<std::string> texts;
  for (const AttentionProblem& a : problems) {
    texts.insert(a.text());
    for (const AttentionProblem& b : problems) EXPECT_EQ(a == b, &a == &b) << a.text();
  }
  EXPECT_EQ(texts.size(), std::size(problems));
  EXPECT_EQ(AttentionProblemHash()(Call().problem()), AttentionProblemHash()(Call().problem()));
}

TEST(AttentionProblemTest, AMaskIsStoredOnceWhereItRepeats) {
  using Sizes = std::array<int64_t, 4>;
  using Steps = AttentionProblem::Steps;
  const struct {
    Shape mask;
    Sizes shape;
    Steps steps;
  } rows[] = {{{128, 128}, {1, 1, 128, 128}, {128 * 128, 128 * 128, 128}},
              {{2, 1, 1, 128}, {2, 1, 1, 128}, {128, 128, 128}},
              {{4, 128, 128}, {1, 4, 128, 128}, {4 * 128 * 128, 128 * 128, 128}},
              {{2, 4, 128, 128}, {2, 4, 128, 128}, {4 * 128 * 128, 128 * 128, 128}}};
  for (const auto& row : rows) {
    const AttentionProblem p = Call{.mask = row.mask}.problem();
    EXPECT_EQ(mask_shape(p), row.shape) << row.mask;
    EXPECT_EQ(mask_steps(p), row.steps) << row.mask;
  }
  // Rows begin at multiples of 16 bytes.
  const Call odd{.key = {2, 4, 101, 64}, .value = {2, 4, 101, 64}, .mask = Shape{2, 1, 1, 101}};
  EXPECT_EQ(mask_steps(odd.problem()), (Steps{104, 104, 104}));
}

}  // namespace
}  // namespace mxlite
